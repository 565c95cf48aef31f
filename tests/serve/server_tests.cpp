// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/metrics.hpp"
#include "serve/support/fake_engine.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::server_tests {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::fake_engine;
using testing::fake_model;
using ::testing::HasSubstr;
using testing::held;
using testing::row_of;

// A model file has the factor by which its model multiplies.
class models : public ::testing::Test {
protected:
    void write(const std::string& path, const std::string& text) {
        fs::create_directories((folder / path).parent_path());
        std::ofstream(folder / path) << text;
    }
    float answer(server& from, const std::string& name, std::optional<std::size_t> version = {}) {
        const auto call = row_of(1);
        EXPECT_TRUE(from.find(name, version)->submit(call));
        return call->get().front();
    }
    static refusal_kind kind_of(const std::function<void()>& what) {
        try {
            what();
        } catch (const refusal& why) {
            return why.kind();
        }
        ADD_FAILURE() << "nothing was refused";
        return refusal_kind::failed;
    }

    io::testing::temporary_directory folder;
    std::shared_ptr<fake_model> last;  // that was loaded
    fake_engine engine{[this](const model_version& which) {
        float factor = 0;
        if (!(std::ifstream(which.file) >> factor)) throw file_error(which.file, 0, "", "this is no factor");
        return last = std::make_shared<fake_model>(factor);
    }};
};

TEST_F(models, the_latest_version_answers_unless_another_is_named) {
    write("m/1/model.onnx", "2");
    write("m/3/model.onnx", "4");
    write("m/config.json", R"({"versions": "all"})");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    EXPECT_EQ(answer(all, "m"), 4);
    EXPECT_EQ(answer(all, "m", 1), 2);
    EXPECT_THAT(all.versions_of("m"), ElementsAre(1, 3));
    EXPECT_EQ(kind_of([&] { all.find("m", 2); }), refusal_kind::not_found);
    EXPECT_EQ(kind_of([&] { all.find("other"); }), refusal_kind::not_found);
    EXPECT_TRUE(all.is_ready());
}

TEST_F(models, versions_with_shares_answer_requests_in_turn) {
    write("m/1/model.onnx", "2");
    write("m/2/model.onnx", "3");
    write("m/3/model.onnx", "4");
    write("m/config.json", R"({"shares": {"1": 7, "3": 3}})");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    EXPECT_THAT(all.versions_of("m"), ElementsAre(1, 3));
    const auto counts = [&](int requests) {
        std::map<std::size_t, int> made;
        for (int i = 0; i < requests; ++i) ++made[all.find_for_request("m", {})->version()];
        return made;
    };
    using counted = std::map<std::size_t, int>;
    EXPECT_EQ(counts(10), (counted{{1, 7}, {3, 3}}));  // of any ten in a row
    EXPECT_EQ(counts(1000), (counted{{1, 700}, {3, 300}}));
    EXPECT_EQ(all.find_for_request("m", 1)->version(), 1U);
    EXPECT_EQ(all.find("m")->version(), 3U);
    EXPECT_EQ(kind_of([&] { all.require_version("m"); }), refusal_kind::bad_request);
    EXPECT_EQ(kind_of([&] { all.find_for_request("m", 2); }), refusal_kind::not_found);
    EXPECT_EQ(kind_of([&] { all.find_for_request("none", {}); }), refusal_kind::not_found);
    write("m/config.json", R"({"shares": {"1": 1}, "versions": "all"})");
    all.load("m");
    EXPECT_EQ(counts(10), (counted{{1, 10}}));
    write("m/config.json", "{}");
    all.load("m");
    EXPECT_EQ(counts(10), (counted{{3, 10}}));
    EXPECT_NO_THROW(all.require_version("m"));
}

TEST_F(models, the_share_of_a_version_that_has_failed_goes_to_the_others) {
    write("m/1/model.onnx", "2");
    write("m/2/model.onnx", "3");
    write("m/config.json", R"({"shares": {"1": 1, "2": 1}})");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    last->lost = true;
    for (int i = 0; i < 10; ++i) EXPECT_EQ(all.find_for_request("m", {})->version(), 1U);
    all.unload("m");
    EXPECT_EQ(kind_of([&] { all.find_for_request("m", {}); }), refusal_kind::not_found);
}

TEST_F(models, of_many_those_that_are_not_asked_for_give_back_memory) {
    std::vector<std::shared_ptr<fake_model>> made;
    fake_engine keeps([&](const model_version&) {
        made.push_back(std::make_shared<fake_model>());
        return made.back();
    });
    const auto given_back = [&] {
        return std::ranges::count_if(made, [](const auto& each) { return each->given_back != 0; });
    };
    for (std::size_t i = 0; i < most_warm_models; ++i) write("m" + std::to_string(i) + "/model.onnx", "x");
    server all(model_source::repository(folder / ""), keeps);
    all.load_all();
    all.give_back_idle(std::chrono::milliseconds(0));
    EXPECT_EQ(given_back(), 0);
    write("one_more/model.onnx", "x");
    all.load("one_more");
    EXPECT_EQ(given_back(), 1);  // what comes after those is not warm before it is asked
    all.give_back_idle(std::chrono::hours(1));
    EXPECT_EQ(given_back(), 1);
    all.give_back_idle(std::chrono::milliseconds(0));
    EXPECT_EQ(given_back(), static_cast<std::ptrdiff_t>(most_warm_models) + 1);
}

// They keep libraries from being loaded on their GPU.
TEST_F(models, those_that_stay_on_a_gpu_are_loaded_last) {
    for (const std::string name : {"a", "b", "c"}) write(name + "/model.onnx", "2");
    EXPECT_FALSE(model_source::repository(folder / "").wants_resident());
    write("a/config.json", R"({"resident": true})");
    write("b/config.json", R"({"resident": false})");
    const model_source source = model_source::repository(folder / "");
    EXPECT_TRUE(source.wants_resident());
    EXPECT_TRUE(source.wants_resident("a"));
    EXPECT_FALSE(source.wants_resident("b"));
    EXPECT_FALSE(source.wants_resident("none"));
    std::vector<std::string> loaded;
    fake_engine notes([&](const model_version& which) {
        loaded.push_back(which.name);
        return std::make_shared<fake_model>();
    });
    server all(source, notes);
    all.load_all();
    EXPECT_THAT(loaded, ElementsAre("b", "c", "a"));
    write("c/config.json", "{");
    EXPECT_FALSE(source.wants_resident("c"));
}

TEST_F(models, only_the_latest_version_is_loaded_by_default) {
    write("m/1/model.onnx", "this would fail");
    write("m/2/model.onnx", "3");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    EXPECT_THAT(all.versions_of("m"), ElementsAre(2));
}

TEST_F(models, versions_that_are_not_there_are_refused) {
    write("m/1/model.onnx", "2");
    write("m/config.json", R"({"versions": [1, 9]})");
    server all(model_source::repository(folder / ""), engine);
    try {
        all.load_all();
        FAIL() << "loaded";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("version 9 of model 'm'"));
    }
}

TEST_F(models, a_load_that_fails_keeps_what_was_loaded) {
    write("m/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    write("m/model.onnx", "nonsense");
    EXPECT_THROW(all.load("m"), file_error);
    EXPECT_EQ(answer(all, "m"), 2);
    EXPECT_TRUE(all.is_ready());
    EXPECT_THAT(all.index().front().reason, HasSubstr("no factor"));
}

TEST_F(models, a_model_that_never_loaded_is_unavailable_and_the_server_not_ready) {
    write("m/model.onnx", "nonsense");
    server all(model_source::repository(folder / ""), engine);
    EXPECT_THROW(all.load_all(), file_error);
    EXPECT_EQ(kind_of([&] { all.find("m"); }), refusal_kind::unavailable);
    EXPECT_FALSE(all.is_ready());
}

TEST_F(models, a_failed_one_can_be_unloaded) {
    write("good/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    write("m/3/model.onnx", "nonsense");
    EXPECT_THROW(all.load("m"), file_error);
    EXPECT_FALSE(all.is_ready());
    EXPECT_EQ(all.index().back().version, 3U);
    EXPECT_EQ(all.index().back().state, model_state::failed);
    EXPECT_THAT(metrics_of(all, {}), HasSubstr("sluice_model_versions{state=\"failed\"} 1\n"));
    all.unload("m");
    EXPECT_TRUE(all.is_ready());
    EXPECT_EQ(all.index().back().state, model_state::unloaded);
    EXPECT_EQ(all.index().back().reason, "unloaded");
    EXPECT_EQ(kind_of([&] { all.find("m"); }), refusal_kind::not_found);
    EXPECT_EQ(kind_of([&] { all.unload("m"); }), refusal_kind::not_found);
}

TEST_F(models, a_failed_one_goes_with_its_folder) {
    server all(model_source::repository(folder / ""), engine);
    write("m/model.onnx", "nonsense");
    EXPECT_THROW(all.load("m"), file_error);
    EXPECT_FALSE(all.is_ready());
    fs::remove_all(folder / "m");
    EXPECT_TRUE(all.is_ready());
    EXPECT_TRUE(all.index().empty());
    EXPECT_EQ(kind_of([&] { all.find("m"); }), refusal_kind::not_found);
}

TEST_F(models, a_failed_one_becomes_ready_by_a_later_load) {
    server all(model_source::repository(folder / ""), engine);
    write("m/model.onnx", "2");
    write("m/config.json", "{");
    EXPECT_THROW(all.load("m"), file_error);
    EXPECT_FALSE(all.is_ready());
    EXPECT_EQ(all.index().front().version, 0U);
    write("m/config.json", "{}");
    all.load("m");
    EXPECT_TRUE(all.is_ready());
    ASSERT_EQ(all.index().size(), 1U);
    EXPECT_EQ(all.index().front().state, model_state::ready);
    EXPECT_EQ(all.index().front().reason, "");
    EXPECT_EQ(answer(all, "m"), 2);
}

TEST_F(models, a_version_that_fails_next_to_one_that_answers_says_so_in_the_index) {
    write("m/1/model.onnx", "2");
    write("m/config.json", R"({"versions": "all"})");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    write("m/2/model.onnx", "nonsense");
    write("m/3/model.onnx", "4");
    EXPECT_THROW(all.load("m"), file_error);
    const auto rows = all.index();
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].state, model_state::ready);
    EXPECT_THAT(rows[0].reason, HasSubstr("loading it again has failed"));
    EXPECT_EQ(rows[1].version, 2U);
    EXPECT_EQ(rows[1].state, model_state::failed);
    EXPECT_THAT(rows[1].reason, HasSubstr("no factor"));
    EXPECT_TRUE(all.is_ready());
    EXPECT_EQ(answer(all, "m"), 2);
    EXPECT_EQ(kind_of([&] { all.find("m", 2); }), refusal_kind::unavailable);
    EXPECT_EQ(kind_of([&] { all.find("m", 3); }), refusal_kind::not_found);
    fs::remove_all(folder / "m/2");
    all.load("m");
    EXPECT_THAT(all.versions_of("m"), ElementsAre(1, 3));
    EXPECT_EQ(all.index().front().reason, "");
}

TEST_F(models, one_that_is_loaded_or_unloaded_is_on_its_way_in_the_index) {
    write("m/model.onnx", "2");
    std::promise<void> is_asked, may_go;
    fake_engine slow([&](const model_version&) {
        is_asked.set_value();
        may_go.get_future().wait();
        return last = std::make_shared<fake_model>(2.F);
    });
    server all(model_source::repository(folder / ""), slow);
    std::thread loads([&] { all.load("m"); });
    is_asked.get_future().wait();
    EXPECT_EQ(all.index().front().state, model_state::loading);
    EXPECT_EQ(all.index().front().version, 1U);
    EXPECT_EQ(kind_of([&] { all.find("m"); }), refusal_kind::unavailable);
    EXPECT_TRUE(all.is_ready());  // a model that comes takes nothing from the others
    may_go.set_value();
    loads.join();
    const auto call = row_of(1);
    std::thread unloads;
    {
        const held gate(*last);
        all.find("m")->submit(call);
        last->wait_until_running();
        unloads = std::thread([&] { all.unload("m"); });
        while (!all.versions_of("m").empty()) std::this_thread::yield();
        EXPECT_EQ(all.index().front().state, model_state::unloading);
    }
    unloads.join();
    EXPECT_EQ(all.index().front().state, model_state::unloaded);
}

TEST_F(models, a_device_that_fails_makes_its_models_failed) {
    write("m/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    const auto call = row_of(testing::deadly_number);
    all.find("m")->submit(call);
    EXPECT_THROW(call->get(), refusal);
    all.find("m")->close();  // which notes it
    EXPECT_FALSE(all.is_ready());
    EXPECT_EQ(all.index().front().state, model_state::failed);
    EXPECT_THAT(all.index().front().reason, HasSubstr("device has failed"));
    all.load("m");
    EXPECT_TRUE(all.is_ready());
    EXPECT_EQ(all.index().front().state, model_state::ready);
    EXPECT_EQ(answer(all, "m"), 2);
}

// What is tried again has not become ready by that.
TEST_F(models, a_failed_one_that_is_loaded_again_is_not_ready_until_it_answers) {
    bool is_right = false, is_slow = false;
    std::promise<void> is_asked, may_go;
    fake_engine tries([&](const model_version&) {
        if (is_slow) {
            is_asked.set_value();
            may_go.get_future().wait();
        }
        if (!is_right) throw error(errc::bad_file, "this is no model");
        return last = std::make_shared<fake_model>(2.F);
    });
    server all(model_source::repository(folder / ""), tries);
    const auto is_ready_while_it_is_loaded = [&] {
        is_asked = std::promise<void>();
        may_go = std::promise<void>();
        is_slow = true;
        std::thread loads([&] {
            if (is_right)
                all.load("m");
            else
                EXPECT_THROW(all.load("m"), error);
        });
        is_asked.get_future().wait();
        const bool is_ready = all.is_ready();
        may_go.set_value();
        loads.join();
        is_slow = false;
        return is_ready;
    };
    write("m/1/model.onnx", "2");
    write("m/config.json", "{");
    EXPECT_THROW(all.load("m"), error);  // before a version is known
    write("m/config.json", "{}");
    EXPECT_FALSE(is_ready_while_it_is_loaded());
    EXPECT_FALSE(all.is_ready());
    write("m/2/model.onnx", "2");  // which takes the place of the one that has failed
    EXPECT_FALSE(is_ready_while_it_is_loaded());
    is_right = true;
    EXPECT_FALSE(is_ready_while_it_is_loaded());
    EXPECT_TRUE(all.is_ready());
    EXPECT_TRUE(is_ready_while_it_is_loaded());
    const auto call = row_of(testing::deadly_number);
    all.find("m")->submit(call);
    EXPECT_THROW(call->get(), refusal);
    all.find("m")->close();  // which notes it
    EXPECT_FALSE(is_ready_while_it_is_loaded());
    EXPECT_TRUE(all.is_ready());
}

TEST_F(models, unload_answers_what_was_accepted) {
    write("m/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    const auto call = row_of(1);
    std::thread unloads;
    {
        const held gate(*last);
        all.find("m")->submit(call);
        last->wait_until_running();
        unloads = std::thread([&] { all.unload("m"); });
        while (!all.versions_of("m").empty()) std::this_thread::yield();
        EXPECT_FALSE(call->is_answered());
        EXPECT_EQ(kind_of([&] { all.find("m"); }), refusal_kind::not_found);
    }
    unloads.join();
    EXPECT_EQ(call->get().front(), 2);
    EXPECT_EQ(kind_of([&] { all.unload("m"); }), refusal_kind::not_found);
    EXPECT_EQ(all.index().front().reason, "unloaded");
    all.load("m");
    EXPECT_EQ(answer(all, "m"), 2);
}

TEST_F(models, reloads_under_load_drop_no_request) {
    write("m/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    std::atomic<bool> stops{false};
    std::atomic<int> answered{0}, wrong{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 3; ++i) {
        clients.emplace_back([&] {
            while (!stops) {
                const auto call = row_of(1);
                while (!all.find("m")->submit(call)) {
                }
                const float y = call->get().front();
                if (y != 2 && y != 3) ++wrong;
                ++answered;
            }
        });
    }
    for (int i = 0; i < 30; ++i) {
        write("m/model.onnx", i % 2 == 0 ? "3" : "2");
        all.load("m");
        EXPECT_EQ(answer(all, "m"), i % 2 == 0 ? 3 : 2);
    }
    stops = true;
    for (std::thread& each : clients) each.join();
    EXPECT_GT(answered, 0);
    EXPECT_EQ(wrong, 0);
}

TEST_F(models, the_end_of_the_server_answers_what_was_accepted) {
    write("m/model.onnx", "2");
    const auto call = row_of(1);
    {
        server all(model_source::repository(folder / ""), engine);
        all.load_all();
        all.find("m")->submit(call);
    }
    EXPECT_TRUE(call->is_answered());
}

TEST_F(models, draining_ends_readiness) {
    server none(model_source::repository(folder / ""), engine);
    none.load_all();
    EXPECT_TRUE(none.is_ready());
    none.begin_drain();
    EXPECT_FALSE(none.is_ready());
    EXPECT_TRUE(none.is_draining());
}

TEST_F(models, a_load_that_ends_before_its_failure_is_noted_can_be_tried_again) {
    write("m/model.onnx", "nonsense");
    server all(model_source::repository(folder / ""), engine, [](const log_line& line) {
        if (line.event == "load_failed") throw std::bad_alloc();
    });
    EXPECT_THROW(all.load("m"), std::bad_alloc);
    EXPECT_EQ(kind_of([&] { all.find("m"); }), refusal_kind::unavailable);
    EXPECT_FALSE(all.is_ready());
    EXPECT_EQ(all.index().front().state, model_state::failed);
    write("m/model.onnx", "2");
    all.load("m");
    EXPECT_EQ(answer(all, "m"), 2);
    EXPECT_TRUE(all.is_ready());
}

TEST_F(models, log_lines_say_what_was_loaded) {
    write("m/model.onnx", "2");
    std::vector<log_line> lines;
    server all(model_source::repository(folder / ""), engine, [&](const log_line& line) { lines.push_back(line); });
    all.load_all();
    all.unload("m");
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].event, "model_loaded");
    EXPECT_EQ(lines[0].model, "m");
    EXPECT_EQ(lines[1].event, "model_unloaded");
}

TEST_F(models, that_were_not_asked_have_no_series) {
    for (int i = 0; i < 12; ++i) write("m" + std::to_string(i) + "/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    const std::string before = metrics_of(all, {});
    EXPECT_THAT(before, ::testing::Not(HasSubstr("model=\"m")));
    EXPECT_THAT(before, HasSubstr("sluice_models_without_series 12\n"));
    for (int i = 0; i < 12; ++i) {
        answer(all, "m" + std::to_string(i));
        all.find("m" + std::to_string(i))->close();
    }
    const std::string some = metrics_of(all, {}, 2);
    EXPECT_THAT(some, HasSubstr("sluice_models_without_series 10\n"));
    for (int i = 0; i < 12; ++i) {
        const std::string series = "sluice_inference_batches_total{model=\"m" + std::to_string(i) + "\"";
        EXPECT_EQ(some.find(series) != std::string::npos, i >= 10) << i;
    }
    EXPECT_LT(some.size(), 20'000U);
}

TEST_F(models, that_fail_or_refuse_were_asked_too) {
    for (const char* const each : {"answers", "fails", "refuses"}) write(each + std::string("/model.onnx"), "2");
    write("refuses/config.json", R"({"queue": 1, "caller_thread_us": 0, "max_batch": 1})");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    const auto shown = [&](const char* name) {
        return metrics_of(all, {}, 1).find("model=\"" + std::string(name)) != std::string::npos;
    };
    const auto refusing = last;  // of the last name
    const auto first = row_of(1), second = row_of(1);
    {
        const held gate(*refusing);
        all.find("refuses")->submit(first);
        refusing->wait_until_running();
        all.find("refuses")->submit(second);
        answer(all, "answers");
        EXPECT_TRUE(shown("answers"));
        EXPECT_EQ(kind_of([&] { all.find("refuses")->submit(row_of(1)); }), refusal_kind::queue_full);
        EXPECT_TRUE(shown("refuses"));
    }
    first->get();
    second->get();
    answer(all, "answers");
    const auto fails = row_of(testing::bad_number);
    all.find("fails")->submit(fails);
    EXPECT_THROW(fails->get(), refusal);
    all.find("fails")->close();
    EXPECT_TRUE(shown("fails"));
}

TEST_F(models, metrics_count_what_happened) {
    write("m/model.onnx", "2");
    server all(model_source::repository(folder / ""), engine);
    all.load_all();
    answer(all, "m");
    all.find("m")->close();
    const std::string text = metrics_of(all, {.replies = {{200, 7}}, .connections = 3, .body_bytes = 5});
    for (const char* const line : {
             "sluice_inference_requests_total{model=\"m\",version=\"1\",result=\"success\"} 1\n",
             "sluice_inference_request_duration_seconds_count{model=\"m\",version=\"1\"} 1\n",
             "sluice_inference_request_duration_seconds_bucket{model=\"m\",version=\"1\",le=\"+Inf\"} 1\n",
             "sluice_inference_batches_total{model=\"m\",version=\"1\"} 1\n",
             "sluice_inference_waiting_requests{model=\"m\",version=\"1\"} 0\n",
             "sluice_http_replies_total{status=\"200\"} 7\n",
             "sluice_http_connections 3\n",
             "# TYPE sluice_inference_request_duration_seconds histogram\n",
         }) {
        EXPECT_THAT(text, HasSubstr(line));
    }
}

}  // namespace
}  // namespace sluice::serve::server_tests
