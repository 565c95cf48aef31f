// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/repository_watch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/support/fake_engine.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::repository_watch_tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A model file has the factor by which its model multiplies.
class repository_watch_test : public ::testing::Test {
protected:
    repository_watch_test() {
        write("a/model.onnx", "2");
        write("b/1/model.onnx", "3");
    }

    // As programs that copy do it.
    void write(const fs::path& path, const std::string& text) const {
        const fs::path to = root / path, copy = to.parent_path() / ".copy";
        fs::create_directories(to.parent_path());
        std::ofstream(copy) << text;
        fs::rename(copy, to);
    }
    void begin(bool follows_links = false, bool loads_same_contents = false) {
        const model_source source = model_source::repository(root, follows_links);
        models = std::make_unique<server>(source, engine, sink());
        watch = std::make_unique<repository_watch>(
            source,
            repository_watch_options{.interval = 20ms, .loads_same_contents = loads_same_contents, .log = sink()});
        models->load_all();
    }
    log_sink sink() {
        return [this](const log_line& line) {
            const std::lock_guard lock(mutex);
            lines.push_back(line.event + ": " + line.message);
        };
    }
    // What the thread does, without its times.
    void look(int times = 2) const {
        for (int i = 0; i < times; ++i) watch->look(*models);
    }
    // 0: there is none.
    float answer(const std::string& name) const {
        try {
            const auto call = testing::row_of(1);
            if (!models->find(name)->submit(call)) return 0;
            return call->get().front();
        } catch (const refusal&) {
            return 0;
        }
    }
    // How many loads there are while this happens.
    int loads_of(const std::function<void()>& what) const {
        const int before = loads;
        what();
        return loads - before;
    }
    std::size_t count(const std::string& event) const {
        const std::lock_guard lock(mutex);
        return static_cast<std::size_t>(
            std::ranges::count_if(lines, [&](const std::string& each) { return each.starts_with(event + ": "); }));
    }

    io::testing::temporary_directory folder;
    fs::path root = fs::path(folder / "repository");
    std::atomic<int> loads{0};
    testing::fake_engine engine{[this](const model_version& which) {
        ++loads;
        float factor = 0;
        if (!(std::ifstream(which.file) >> factor)) throw file_error(which.file, 0, "", "this is no factor");
        return std::make_shared<testing::fake_model>(factor);
    }};
    mutable std::mutex mutex;
    std::vector<std::string> lines;
    std::unique_ptr<server> models;
    std::unique_ptr<repository_watch> watch;
};

TEST_F(repository_watch_test, its_thread_looks_and_ends) {
    begin();
    watch->start(*models);
    write("a/model.onnx", "5");
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (answer("a") != 5 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(answer("a"), 5);
    EXPECT_TRUE(watch->stop(60s));
    write("a/model.onnx", "6");
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(answer("a"), 5);
}

TEST_F(repository_watch_test, what_changes_comes_or_goes_is_loaded_or_unloaded) {
    begin();
    EXPECT_EQ(loads_of([&] { look(5); }), 0);
    write("a/model.onnx", "5");
    write("b/2/model.onnx", "7");
    write("c/model.onnx", "11");
    look(1);
    EXPECT_EQ(answer("a"), 2);  // it may still be written
    EXPECT_EQ(loads_of([&] { look(1); }), 3);
    EXPECT_EQ(answer("a"), 5);
    EXPECT_EQ(answer("b"), 7);
    EXPECT_EQ(answer("c"), 11);
    fs::remove_all(root / "a");
    look(1);
    EXPECT_EQ(answer("a"), 5);
    look(1);
    EXPECT_EQ(answer("a"), 0);
    EXPECT_EQ(answer("c"), 11);
    write("a/model.onnx", "6");
    look();
    EXPECT_EQ(answer("a"), 6);
}

TEST_F(repository_watch_test, one_look_without_a_model_does_not_unload_it) {
    begin();
    for (int i = 0; i < 3; ++i) {
        fs::rename(root / "a", folder / "away");
        look(1);
        fs::rename(folder / "away", root / "a");
        look(1);
        EXPECT_EQ(answer("a"), 2);
    }
}

TEST_F(repository_watch_test, the_same_contents_are_not_loaded_again) {
    begin();
    look(1);  // which reads what was loaded
    EXPECT_EQ(loads_of([&] {
                  write("a/model.onnx", "2");
                  look(3);
                  write("a/.half.onnx", "6");
                  look(3);
              }),
              0);
    write("a/model.onnx", "5");
    look();
    EXPECT_EQ(loads_of([&] {
                  write("a/model.onnx", "5");
                  look(3);
              }),
              0);
    EXPECT_EQ(answer("a"), 5);
    models->load("a");  // by a client: who knows what it was then?
    EXPECT_EQ(loads_of([&] {
                  write("a/model.onnx", "5");
                  look(3);
              }),
              1);
}

TEST_F(repository_watch_test, the_same_contents_are_loaded_where_the_engine_reads_them_again) {
    begin(false, true);
    look(2);
    EXPECT_EQ(loads_of([&] {
                  write("a/model.onnx", "2");
                  look(3);
              }),
              1);
}

TEST_F(repository_watch_test, what_is_still_written_is_not_loaded) {
    begin();
    std::ofstream to(root / "a/model.onnx", std::ios::app);
    EXPECT_EQ(loads_of([&] {
                  for (int i = 0; i < 10; ++i) {
                      to << "0" << std::flush;
                      look(1);
                  }
              }),
              0);
    EXPECT_EQ(loads_of([&] { look(1); }), 1);
}

TEST_F(repository_watch_test, a_load_that_fails_leaves_what_there_was_and_is_tried_after_the_next_change) {
    begin();
    look(1);
    write("a/model.onnx", "no number");
    EXPECT_EQ(loads_of([&] { look(5); }), 1);  // the next try is later
    EXPECT_EQ(answer("a"), 2);
    EXPECT_EQ(count("load_failed"), 1U);
    write("a/model.onnx", "2");  // the contents of the last good load, but that of the failed one was other
    look(3);
    EXPECT_EQ(answer("a"), 2);
    write("a/model.onnx", "9");
    look();
    EXPECT_EQ(answer("a"), 9);
}

TEST_F(repository_watch_test, a_new_model_that_cannot_be_loaded_leaves_the_server_ready) {
    begin();
    write("docs/readme.md", "x");
    write("c/model.onnx", "no number");
    look(5);
    EXPECT_TRUE(models->is_ready());
    EXPECT_EQ(count("new_model_not_loaded"), 2U);
    write("c/model.onnx", "4");
    look();
    EXPECT_EQ(answer("c"), 4);
    EXPECT_TRUE(models->is_ready());
}

TEST_F(repository_watch_test, a_repository_that_is_lost_changes_nothing) {
    begin();
    fs::rename(root, folder / "elsewhere");
    look(3);
    EXPECT_EQ(answer("a"), 2);
    EXPECT_EQ(count("repository_not_read"), 1U);
    fs::create_directories(root);
    look(3);
    EXPECT_EQ(answer("b"), 3);
    EXPECT_EQ(count("repository_not_read"), 2U);
    fs::remove(root);
    fs::rename(folder / "elsewhere", root);
    write("a/model.onnx", "4");
    look();
    EXPECT_EQ(answer("a"), 4);
}

// As git-sync does it.
TEST_F(repository_watch_test, a_link_that_leads_elsewhere_brings_other_models) {
    fs::create_directories(folder / "first");
    fs::rename(root, folder / "first/models");
    fs::create_directory_symlink("first/models", root);
    begin();
    look(1);
    fs::create_directories(folder / "second/models/a");
    std::ofstream(folder / "second/models/a/model.onnx") << "8";
    fs::create_directory_symlink("second/models", folder / "next");
    fs::rename(folder / "next", root);
    fs::remove_all(folder / "first");
    look();
    EXPECT_EQ(answer("a"), 8);
    EXPECT_EQ(answer("b"), 0);
}

TEST_F(repository_watch_test, a_link_whose_volume_is_away_is_not_gone) {
    fs::rename(root / "a", folder / "volume");
    fs::create_directory_symlink(folder / "volume", root / "a");
    begin(true);
    EXPECT_EQ(answer("a"), 2);
    fs::rename(folder / "volume", folder / "away");
    look(4);
    EXPECT_EQ(answer("a"), 2);
}

TEST_F(repository_watch_test, pipes_devices_and_circles_hold_up_nothing) {
    ASSERT_EQ(::mkfifo((root / "b/1/pipe").c_str(), 0600), 0);
    fs::create_symlink("/dev/zero", root / "b/1/zero");
    fs::create_directory_symlink("/", root / "b/all");
    for (const char* const each : {"x", "y", "z"}) fs::create_directory_symlink(".", root / "b" / each);
    fs::create_directories(root / "a/closed");
    begin();
    look(2);
    fs::permissions(root / "a/closed", fs::perms::none);
    write("b/1/model.onnx", "6");
    look(3);
    EXPECT_EQ(answer("b"), 6);
    fs::permissions(root / "a/closed", fs::perms::owner_all);
}

TEST_F(repository_watch_test, what_cannot_be_watched_is_refused) {
    EXPECT_THROW(repository_watch(model_source::files({(root / "a/model.onnx").string()}), {}), error);
    EXPECT_THROW(repository_watch(model_source::repository(root), {.interval = 0ms}), error);
}

}  // namespace
}  // namespace sluice::serve::repository_watch_tests
