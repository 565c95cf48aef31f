// SPDX-License-Identifier: Apache-2.0
// Models that are loaded when a request asks for them, and put out when others need their room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/awaited_loads.hpp"
#include "serve/metrics.hpp"
#include "serve/support/fake_engine.hpp"
#include "serve/support/summing_model.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/repository_watch.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::on_demand_tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::fake_engine;
using testing::fake_model;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::row_of;
using testing::summing_model;

// Room for this many models without weights.
std::size_t room_for(std::size_t models) { return models * server_options::beside_files + 1000; }

// A model file has the factor by which its model multiplies; "memory" has one with state.
class on_demand : public ::testing::Test {
protected:
    on_demand() {
        for (int i = 0; i < 20; ++i) write("m" + std::to_string(i), std::to_string(i));
    }
    void write(const std::string& name, const std::string& text) {
        fs::create_directories(folder / name);
        std::ofstream(folder / name / "model.onnx") << text;
    }
    server& begin(std::size_t most_bytes = 0) {
        models = std::make_unique<server>(
            source(), engine, log_sink(),
            server_options{.loads_on_demand = true, .most_bytes = most_bytes, .least_idle = 0ms});
        models->load_all();
        return *models;
    }
    model_source source() const { return model_source::repository(folder / ""); }
    // Waits as a front end does, but blocks.
    void wait_for(const std::string& name) const {
        std::promise<void> done;
        if (models->load_for_request(name, [&] { done.set_value(); })) done.get_future().get();
    }
    float ask(const std::string& name, float value = 1) const {
        while (true) {
            wait_for(name);
            std::shared_ptr<served_model> model;
            try {
                model = models->find_for_request(name, {});
            } catch (const refusal& why) {
                const bool is_coming = std::string_view(why.what()).find("is being loaded") != std::string_view::npos;
                if (why.kind() == refusal_kind::not_found || is_coming) continue;  // it went, and may come again
                throw;
            }
            const auto call = row_of(value);
            if (!model->submit(call)) continue;
            const float answer = call->get().front();
            wait_until_idle(*model);
            return answer;
        }
    }
    // A model is in use until its batch has ended, which is after the answers.
    static void wait_until_idle(const served_model& model) {
        while (model.statistics().running != 0) std::this_thread::yield();
    }
    std::vector<std::string> loaded() const {
        std::vector<std::string> names;
        for (const auto& each : models->all()) names.push_back(each->name());
        return names;
    }

    io::testing::temporary_directory folder;
    std::atomic<int> loads{0};
    std::function<void()> on_load = [] {};
    std::map<std::string, std::shared_ptr<fake_model>> made;  // by the thread that loads
    fake_engine engine{[this](const model_version& which) -> std::shared_ptr<const loaded_model> {
        ++loads;
        on_load();
        if (which.name == "memory") return std::make_shared<summing_model>(2);
        float factor = 0;
        if (!(std::ifstream(which.file) >> factor)) throw file_error(which.file, 0, "", "this is no factor");
        return made[which.name] = std::make_shared<fake_model>(factor);
    }};
    std::unique_ptr<server> models;
};

TEST_F(on_demand, a_model_is_loaded_by_the_first_request_for_it) {
    begin();
    EXPECT_EQ(loads, 0);
    EXPECT_TRUE(models->is_ready());
    EXPECT_EQ(ask("m3", 2), 6);
    EXPECT_EQ(ask("m3", 3), 9);
    EXPECT_EQ(loads, 1);
    EXPECT_THAT(loaded(), ElementsAre("m3"));
    bool was_called = false;
    EXPECT_FALSE(models->load_for_request("m3", [&] { was_called = true; }));
    EXPECT_FALSE(models->load_for_request("none", [&] { was_called = true; }));
    EXPECT_FALSE(was_called);
    EXPECT_EQ(models->memory().on_demand, 1U);
    EXPECT_EQ(models->memory().bytes, server_options::beside_files + 1);  // "3"
    EXPECT_EQ(models->index().size(), 20U);
    models->unload("m3");  // until the next request
    EXPECT_EQ(models->memory().bytes, 0U);
    EXPECT_EQ(ask("m3", 1), 3);
    EXPECT_THAT(metrics_of(*models, {}, 100), HasSubstr("sluice_model_loads_on_demand_total 2\n"));
}

TEST_F(on_demand, without_the_option_nothing_is_loaded_by_requests) {
    models = std::make_unique<server>(source(), engine);
    EXPECT_FALSE(models->load_for_request("m3", [] {}));
    EXPECT_EQ(loads, 0);
}

TEST_F(on_demand, requests_that_come_together_wait_for_one_load) {
    std::promise<void> open;
    on_load = [gate = open.get_future().share()] { gate.wait(); };
    begin();
    std::vector<std::future<float>> answers;
    for (int i = 0; i < 8; ++i) answers.push_back(std::async(std::launch::async, [&] { return ask("m7"); }));
    while (loads == 0) std::this_thread::yield();
    open.set_value();
    for (auto& each : answers) EXPECT_EQ(each.get(), 7);
    EXPECT_EQ(loads, 1);
}

TEST_F(on_demand, a_failure_wakes_those_that_wait_and_is_tried_again_later) {
    write("bad", "no number");
    begin();
    wait_for("bad");
    const auto expect_refused = [&] {
        try {
            wait_for("bad");
            models->find("bad");
            ADD_FAILURE() << "it was not refused";
        } catch (const refusal& why) {
            EXPECT_EQ(why.kind(), refusal_kind::unavailable);
            EXPECT_THAT(why.what(), HasSubstr("this is no factor"));
        }
    };
    expect_refused();
    EXPECT_EQ(loads, 1);  // not again for each request
    EXPECT_TRUE(models->is_ready());
    EXPECT_THAT(models->known(), IsEmpty());
    write("bad", "5");
    expect_refused();
    std::this_thread::sleep_for(awaited_loads::retry_after + 50ms);
    EXPECT_EQ(ask("bad"), 5);
}

// An operator's failed load stays what it is: the server is not ready until a load ends well.
TEST_F(on_demand, a_request_tries_again_what_an_operator_could_not_load) {
    write("bad", "no number");
    begin();
    EXPECT_THROW(models->load("bad"), error);
    EXPECT_FALSE(models->is_ready());
    wait_for("bad");
    EXPECT_EQ(loads, 2);
    EXPECT_THROW(models->find("bad"), refusal);
    EXPECT_FALSE(models->is_ready());
    write("bad", "5");
    std::this_thread::sleep_for(awaited_loads::retry_after + 50ms);
    EXPECT_EQ(ask("bad"), 5);
    EXPECT_TRUE(models->is_ready());
}

TEST_F(on_demand, requests_wait_for_a_load_that_an_operator_has_begun) {
    std::promise<void> open;
    on_load = [gate = open.get_future().share()] { gate.wait(); };
    begin();
    std::thread operation([&] { models->load("m4"); });
    while (loads == 0) std::this_thread::yield();
    auto answer = std::async(std::launch::async, [&] { return ask("m4"); });
    std::this_thread::sleep_for(20ms);
    open.set_value();
    EXPECT_EQ(answer.get(), 4);
    operation.join();
    EXPECT_EQ(loads, 1);
}

TEST_F(on_demand, first_requests_at_the_same_moment_are_one_load) {
    begin();
    for (int round = 0; round < 200; ++round) {
        std::atomic<int> ready{0}, woken{0};
        std::vector<std::thread> clients;
        int waiting = 0;
        std::mutex mutex;
        for (int i = 0; i < 4; ++i) {
            clients.emplace_back([&] {
                ++ready;
                while (ready != 4) std::this_thread::yield();
                const bool waits = models->load_for_request("m9", [&] { ++woken; });
                const std::lock_guard lock(mutex);
                waiting += waits ? 1 : 0;
            });
        }
        for (std::thread& each : clients) each.join();
        while (woken != waiting) std::this_thread::yield();
        EXPECT_EQ(ask("m9"), 9);
        models->unload("m9");
    }
}

TEST_F(on_demand, one_that_was_asked_for_just_now_stays) {
    models =
        std::make_unique<server>(source(), engine, log_sink(),
                                 server_options{.loads_on_demand = true, .most_bytes = room_for(1), .least_idle = 1h});
    for (const char* const name : {"m1", "m2", "m3"}) ask(name);
    EXPECT_THAT(loaded(), ElementsAre("m1", "m2", "m3"));
}

TEST_F(on_demand, a_model_says_that_it_will_come) {
    write("bad", "no number");
    begin();
    EXPECT_TRUE(models->comes_on_demand("m1"));
    EXPECT_TRUE(models->comes_on_demand("m1", 1));
    EXPECT_FALSE(models->comes_on_demand("m1", 2));
    EXPECT_FALSE(models->comes_on_demand("none"));
    EXPECT_TRUE(models->comes_on_demand("bad"));
    wait_for("bad");
    EXPECT_FALSE(models->comes_on_demand("bad"));
    ask("m1");
    EXPECT_FALSE(models->comes_on_demand("m1"));  // it is there
    EXPECT_TRUE(models->find("m1")->is_ready());
}

// A link may lead to a store that has the files of many models.
TEST_F(on_demand, only_the_files_of_a_model_count) {
    const io::testing::temporary_directory store;
    std::ofstream(store / "large") << std::string(1 << 20, ' ');
    std::ofstream(store / "model") << "7";
    fs::create_directories(folder / "linked");
    fs::create_symlink(store / "model", folder / "linked/model.onnx");
    models = std::make_unique<server>(model_source::repository(folder / "", true), engine, log_sink(),
                                      server_options{.loads_on_demand = true});
    EXPECT_EQ(ask("linked"), 7);
    EXPECT_LT(models->memory().bytes, server_options::beside_files + 1000);
}

TEST_F(on_demand, those_that_were_not_asked_for_longest_make_room) {
    begin(room_for(3));
    for (const char* const name : {"m1", "m2", "m3"}) ask(name);
    ask("m1");
    EXPECT_THAT(loaded(), ElementsAre("m1", "m2", "m3"));
    EXPECT_EQ(ask("m4"), 4);
    EXPECT_THAT(loaded(), ElementsAre("m1", "m3", "m4"));
    EXPECT_EQ(ask("m5"), 5);
    EXPECT_THAT(loaded(), ElementsAre("m1", "m4", "m5"));
    EXPECT_EQ(ask("m2"), 2);
    EXPECT_EQ(models->memory().put_out, 3U);
    EXPECT_LE(models->memory().bytes, room_for(3));
    EXPECT_TRUE(models->is_ready());
}

TEST_F(on_demand, weights_beside_the_model_count_and_one_that_has_no_room_is_alone) {
    write("large", "9");
    std::ofstream(folder / "large/weights.bin") << std::string(1 << 20, ' ');
    begin(room_for(3));
    for (const char* const name : {"m1", "m2"}) ask(name);
    EXPECT_EQ(ask("large"), 9);
    EXPECT_THAT(loaded(), ElementsAre("large"));
    EXPECT_EQ(models->memory().bytes, server_options::beside_files + (1 << 20) + 1);
    EXPECT_EQ(ask("m1"), 1);
    EXPECT_THAT(loaded(), ElementsAre("m1"));
}

TEST_F(on_demand, one_that_computes_stays) {
    begin(room_for(2));
    ask("m1");
    ask("m2");
    const auto held_one = made.at("m1");
    const testing::held hold(*held_one);
    const auto waiting = row_of(1);
    ASSERT_TRUE(models->find("m1")->submit(waiting));
    held_one->wait_until_running();
    ask("m2");
    EXPECT_EQ(ask("m3"), 3);  // m2 was asked later, but m1 computes
    EXPECT_THAT(loaded(), ElementsAre("m1", "m3"));
    held_one->open();
    EXPECT_EQ(waiting->get().front(), 1);
}

TEST_F(on_demand, one_with_live_sequences_stays_until_they_end) {
    write("memory", "x");
    begin(room_for(1));
    wait_for("memory");
    const auto step = [&](bool begins, bool ends) {
        const auto call = row_of(1);
        call->inputs.emplace_back();  // the state
        call->sequence = sequence_request{.id = {.text = {}, .number = 1}, .begins = begins, .ends = ends};
        const auto model = models->find("memory");
        EXPECT_TRUE(model->submit(call));
        const float answer = call->get().front();
        wait_until_idle(*model);
        return answer;
    };
    EXPECT_EQ(step(true, false), 10);
    EXPECT_EQ(ask("m1"), 1);
    EXPECT_EQ(ask("m2"), 2);
    EXPECT_THAT(loaded(), ElementsAre("m2", "memory"));
    EXPECT_EQ(step(false, true), 20);
    EXPECT_EQ(ask("m3"), 3);
    EXPECT_THAT(loaded(), ElementsAre("m3"));
}

// A version that is in use keeps the others of its model.
TEST_F(on_demand, a_model_goes_with_all_of_its_versions_or_not) {
    fs::remove_all(folder / "m1");
    write("m1/1", "10");
    write("m1/2", "20");
    std::ofstream(folder / "m1/config.json") << R"({"versions": "all"})";
    begin(room_for(2));
    wait_for("m1");
    const auto first = made.at("m1");  // of version 2, which was loaded last
    const testing::held hold(*first);
    const auto waiting = row_of(1);
    ASSERT_TRUE(models->find("m1", 2)->submit(waiting));
    first->wait_until_running();
    EXPECT_EQ(ask("m2"), 2);
    EXPECT_THAT(models->versions_of("m1"), ElementsAre(1, 2));
    const auto other = row_of(1);
    ASSERT_TRUE(models->find("m1", 1)->submit(other));
    EXPECT_EQ(other->get().front(), 10);
    first->open();
    EXPECT_EQ(waiting->get().front(), 20);
    for (const auto& each : models->all()) wait_until_idle(*each);
    EXPECT_EQ(ask("m3"), 3);
    EXPECT_EQ(ask("m4"), 4);
    EXPECT_THAT(models->versions_of("m1"), IsEmpty());
}

TEST_F(on_demand, many_clients_of_more_models_than_have_room_get_right_answers) {
    begin(room_for(4));
    std::vector<std::thread> clients;
    std::atomic<int> answers{0};
    for (unsigned i = 0; i < 6; ++i) {
        clients.emplace_back([&, i] {
            std::mt19937 random(i);
            for (int step = 0; step < 300; ++step) {
                const int which = static_cast<int>(random() % 20);
                EXPECT_EQ(ask("m" + std::to_string(which), 3), 3.0F * static_cast<float>(which));
                ++answers;
            }
        });
    }
    // An operator meanwhile.
    std::thread control([&] {
        for (int step = 0; step < 50; ++step) {
            models->load("m" + std::to_string(step % 20));
            try {
                models->unload("m" + std::to_string((step + 7) % 20));
            } catch (const refusal&) {  // it was put out
            }
        }
    });
    for (std::thread& each : clients) each.join();
    control.join();
    EXPECT_EQ(answers, 1800);
    EXPECT_GT(models->memory().put_out, 100U);
}

TEST_F(on_demand, the_end_of_the_server_wakes_those_that_wait) {
    std::promise<void> open;
    on_load = [gate = open.get_future().share()] { gate.wait(); };
    begin();
    std::atomic<int> woken{0};
    for (const char* const name : {"m1", "m2", "m2", "m3"})
        EXPECT_TRUE(models->load_for_request(name, [&] { ++woken; }));
    while (loads == 0) std::this_thread::yield();
    std::thread end([&] { models.reset(); });
    std::this_thread::sleep_for(10ms);
    open.set_value();
    end.join();
    EXPECT_EQ(woken, 4);
    EXPECT_LE(loads, 3);  // 1, where the end comes before the load is over
}

TEST_F(on_demand, a_load_that_fails_while_it_makes_room_can_be_tried_again) {
    bool fails = true;
    models = std::make_unique<server>(
        source(), engine,
        [&](const log_line& line) {
            if (line.event == "model_put_out" && std::exchange(fails, false)) throw std::bad_alloc();
        },
        server_options{.loads_on_demand = true, .most_bytes = room_for(1), .least_idle = 0ms});
    EXPECT_EQ(ask("m1"), 1);
    EXPECT_THROW(models->load("m2"), std::bad_alloc);
    EXPECT_FALSE(models->is_loading("m2"));
    models->load("m2");
    EXPECT_EQ(ask("m2"), 2);
}

TEST_F(on_demand, a_watch_of_the_repository_loads_again_only_what_is_loaded) {
    begin();
    repository_watch watch(source(), {});
    ask("m1");
    write("m1", "11");
    write("m2", "22");
    write("new", "33");
    for (int i = 0; i < 3; ++i) watch.look(*models);
    EXPECT_THAT(loaded(), ElementsAre("m1"));
    EXPECT_EQ(loads, 2);
    EXPECT_EQ(ask("m1"), 11);
    EXPECT_EQ(ask("m2"), 22);
    EXPECT_EQ(ask("new"), 33);
    for (int i = 0; i < 3; ++i) watch.look(*models);
    EXPECT_EQ(loads, 4);
    write("new", "34");
    for (int i = 0; i < 3; ++i) watch.look(*models);
    EXPECT_EQ(ask("new"), 34);
    fs::remove_all(folder / "new");
    for (int i = 0; i < 3; ++i) watch.look(*models);
    EXPECT_FALSE(models->load_for_request("new", [] {}));
}

}  // namespace
}  // namespace sluice::serve::on_demand_tests
