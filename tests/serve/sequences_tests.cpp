// SPDX-License-Identifier: Apache-2.0
// Steps of sequences in the order of arrival, their states, bounds and ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/support/summing_model.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::sequences_tests {
namespace {

using namespace std::chrono_literals;
using testing::fake_engine;
using ::testing::HasSubstr;
using testing::summing_model;
using testing::test_call;

sequence_id number(std::uint64_t id) { return {.text = {}, .number = id}; }

// A step with rows of one number.
std::shared_ptr<test_call> step(const sequence_id& id, std::vector<float> x, bool begins = false, bool ends = false,
                                const std::shared_ptr<request_budget>& budget = {}) {
    const std::size_t rows = x.size();
    auto made = std::make_shared<test_call>(std::move(x), std::vector<std::size_t>{rows, 1});
    made->inputs.emplace_back();  // the state
    made->sequence = sequence_request{.id = id, .begins = begins, .ends = ends, .budget = budget};
    return made;
}

std::shared_ptr<served_model> serve(const std::shared_ptr<summing_model>& network, const model_config& config = {}) {
    return served_model::make("m", 1, network, config);
}

std::vector<float> ask(served_model& model, const std::shared_ptr<test_call>& call) {
    EXPECT_TRUE(model.submit(call));
    return call->get();
}

std::string why_not(served_model& model, const std::shared_ptr<test_call>& call, refusal_kind kind) {
    try {
        if (model.submit(call)) call->get();
        ADD_FAILURE() << "accepted";
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), kind) << why.what();
        return why.what();
    }
    return {};
}

std::uint64_t ended(const served_model& model, sequence_end why) {
    return model.statistics().ended_sequences[static_cast<std::size_t>(why)];
}

using floats = std::vector<float>;

TEST(sequences, a_step_goes_on_from_the_state_that_the_one_before_left) {
    const auto model = serve(std::make_shared<summing_model>());
    EXPECT_EQ(model->state().words, "state_out is the next state_in");
    EXPECT_EQ(ask(*model, step(number(7), {1}, true)), floats{10});
    EXPECT_EQ(ask(*model, step(number(8), {100}, true)), floats{1000});
    EXPECT_EQ(ask(*model, step(number(7), {2})), floats{30});
    EXPECT_EQ(ask(*model, step({.text = "7"}, {5, 6}, true)), (floats{50, 60}));  // another one, of two rows
    EXPECT_EQ(ask(*model, step(number(7), {3}, false, true)), floats{60});
    EXPECT_EQ(ask(*model, step(number(8), {1})), floats{1010});
    EXPECT_EQ(ask(*model, step({.text = "7"}, {1, 1})), (floats{60, 70}));
    EXPECT_EQ(model->statistics().sequences, 2U);
    EXPECT_EQ(ended(*model, sequence_end::asked), 1U);
    EXPECT_EQ(ask(*model, step(number(9), {4}, true, true)), floats{40});  // one step in all
    EXPECT_EQ(model->statistics().sequences, 2U);
}

TEST(sequences, without_a_sequence_the_state_is_an_input) {
    const auto model = serve(std::make_shared<summing_model>());
    auto call = step(number(1), {1});
    call->sequence.reset();
    call->inputs[1] = call->inputs[0];
    EXPECT_EQ(ask(*model, call), floats{20});
    EXPECT_EQ(model->statistics().sequences, 0U);
}

TEST(sequences, one_that_is_not_live_is_refused_and_one_that_begins_again_begins_from_zeros) {
    const auto model = serve(std::make_shared<summing_model>());
    EXPECT_THAT(why_not(*model, step(number(7), {1}), refusal_kind::bad_request),
                HasSubstr("there is no sequence 7: it has ended"));
    ask(*model, step(number(7), {1}, true));
    EXPECT_EQ(ask(*model, step(number(7), {2}, true)), floats{20});
    EXPECT_EQ(ended(*model, sequence_end::restarted), 1U);
    ask(*model, step(number(7), {2}, false, true));
    EXPECT_THAT(why_not(*model, step(number(7), {1}), refusal_kind::bad_request), HasSubstr("no sequence 7"));
    EXPECT_THAT(why_not(*model, step({.text = "a\nb"}, {1}), refusal_kind::bad_request), HasSubstr("'a\\x0ab'"));
}

TEST(sequences, a_step_that_is_refused_changes_nothing) {
    const auto model = serve(std::make_shared<summing_model>());
    ask(*model, step(number(7), {1}, true));
    ask(*model, step(number(8), {1}, true));
    why_not(*model, step(number(7), {testing::bad_number}, false, true), refusal_kind::bad_request);
    why_not(*model, step(number(7), {testing::bad_number}, true), refusal_kind::bad_request);
    EXPECT_THAT(why_not(*model, step(number(7), {1, 2}), refusal_kind::bad_request), HasSubstr("state_in"));
    why_not(*model, step(number(9), {testing::bad_number}, true), refusal_kind::bad_request);
    EXPECT_EQ(ask(*model, step(number(7), {1})), floats{20});
    EXPECT_EQ(ask(*model, step(number(8), {1})), floats{20});
    EXPECT_EQ(model->statistics().sequences, 2U);
}

TEST(sequences, steps_of_one_are_computed_one_by_one_in_their_order_and_those_of_several_together) {
    const auto network = std::make_shared<summing_model>();
    const auto model = serve(network);
    for (std::uint64_t id = 1; id <= 8; ++id) ask(*model, step(number(id), {0}, true));
    network->hold();
    std::vector<std::shared_ptr<test_call>> calls;
    for (int i = 1; i <= 20; ++i) {
        for (std::uint64_t id = 1; id <= 8; ++id) {
            calls.push_back(step(number(id), {static_cast<float>(2 * i)}));
            ASSERT_TRUE(model->submit(calls.back()));
        }
    }
    network->wait_until_running();
    network->open();
    float sum = 0;
    for (int i = 1; i <= 20; ++i) {
        sum += static_cast<float>(2 * i);
        for (std::size_t id = 0; id < 8; ++id)
            EXPECT_EQ(calls[static_cast<std::size_t>(i - 1) * 8 + id]->get(), floats{10 * sum});
    }
    std::size_t largest = 0;
    for (const std::size_t each : network->batches()) largest = std::max(largest, each);
    EXPECT_GT(largest, 1U);
    EXPECT_LE(largest, 8U);
}

// The first one fails, or its client goes: those that wait have their turns.
TEST(sequences, steps_that_wait_go_on_after_one_that_was_refused) {
    const auto network = std::make_shared<summing_model>();
    const auto model = serve(network);
    network->hold();
    const auto first = step(number(1), {testing::bad_number}, true);
    const auto second = step(number(1), {1}), third = step(number(1), {2}, true), gone = step(number(1), {3});
    const auto last = step(number(1), {4});
    for (const auto& each : {first, second, third, gone, last}) ASSERT_TRUE(model->submit(each));
    gone->wanted = false;
    network->open();
    EXPECT_THROW(first->get(), refusal);
    EXPECT_THROW(second->get(), refusal);  // the sequence did not begin
    EXPECT_EQ(third->get(), floats{20});
    EXPECT_THROW(gone->get(), refusal);
    EXPECT_EQ(last->get(), floats{60});
}

TEST(sequences, there_are_no_more_than_the_configuration_says) {
    const auto network = std::make_shared<summing_model>();
    const auto model = serve(network, {.queue = 3, .max_sequences = 2});
    ask(*model, step(number(1), {1}, true));
    ask(*model, step(number(2), {1}, true));
    const std::string why = why_not(*model, step(number(3), {1}, true), refusal_kind::queue_full);
    EXPECT_THAT(why, HasSubstr("2 are live, and the model accepts 2 (max_sequences)"));
    EXPECT_EQ(ask(*model, step(number(2), {1}, true)), floats{10});  // it is one of the two
    ask(*model, step(number(1), {1}, false, true));
    EXPECT_EQ(ask(*model, step(number(3), {1}, true)), floats{10});
    network->hold();
    std::vector<std::shared_ptr<test_call>> calls;
    for (int i = 0; i < 4; ++i) {  // one has its turn
        calls.push_back(step(number(3), {1}));
        ASSERT_TRUE(model->submit(calls.back()));
    }
    EXPECT_THAT(why_not(*model, step(number(3), {1}), refusal_kind::queue_full), HasSubstr("3 steps wait"));
    network->open();
    for (const auto& each : calls) each->get();
    EXPECT_EQ(model->statistics().refused_full, 2U);
}

TEST(sequences, those_without_a_step_for_too_long_end_by_themselves) {
    const auto budget = std::make_shared<request_budget>(1 << 20);
    const auto model = serve(std::make_shared<summing_model>(), {.max_sequences = 1, .sequence_idle_ms = 20});
    ask(*model, step(number(1), {1}, true, false, budget));
    while (model->statistics().sequences != 0) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(budget->bytes(), 0U);
    EXPECT_EQ(ended(*model, sequence_end::idle), 1U);
    EXPECT_THAT(why_not(*model, step(number(1), {1}), refusal_kind::bad_request), HasSubstr("20 ms"));
    EXPECT_EQ(ask(*model, step(number(2), {1}, true)), floats{10});
}

TEST(sequences, states_count_for_the_memory_of_requests) {
    const auto budget = std::make_shared<request_budget>(40'000);
    const auto model = serve(std::make_shared<summing_model>());
    const floats rows(1000);
    EXPECT_EQ(ask(*model, step(number(1), rows, true, false, budget)).size(), rows.size());
    const std::size_t one = budget->bytes();
    EXPECT_GE(one, rows.size() * sizeof(float));
    ask(*model, step(number(2), rows, true, false, budget));
    ask(*model, step(number(2), rows, false, false, budget));
    EXPECT_EQ(budget->bytes(), 2 * one);
    ask(*model, step(number(3), rows, true, false, budget));
    EXPECT_THAT(why_not(*model, step(number(4), rows, true, false, budget), refusal_kind::unavailable),
                HasSubstr("memory for requests is in use"));
    EXPECT_EQ(budget->bytes(), 3 * one);
    EXPECT_TRUE(budget->has_room(20'000));  // the other half is for requests
    ask(*model, step(number(1), rows, false, true, budget));
    EXPECT_EQ(budget->bytes(), 2 * one);
    EXPECT_EQ(ask(*model, step(number(4), rows, true, true, budget)).size(), rows.size());
    EXPECT_EQ(budget->bytes(), 2 * one);
}

TEST(sequences, configurations_say_the_state_or_that_there_is_none) {
    const auto network = std::make_shared<summing_model>(1, "q");
    const auto silent = serve(network);
    EXPECT_TRUE(silent->state().all.empty());
    EXPECT_THAT(why_not(*silent, step(number(1), {1}, true), refusal_kind::bad_request),
                HasSubstr("no names say which outputs are the next inputs"));
    const auto named = serve(network, {.state = {{"q_out", "q_in"}}});
    ask(*named, step(number(1), {1}, true));
    EXPECT_EQ(ask(*named, step(number(1), {1})), floats{20});
    const auto none = serve(std::make_shared<summing_model>(), {.max_sequences = 0});
    EXPECT_THAT(why_not(*none, step(number(1), {1}, true), refusal_kind::bad_request), HasSubstr("max_sequences"));
    const auto refuses = [&](model_config config, const char* why) {
        try {
            serve(network, config);
            ADD_FAILURE() << "accepted";
        } catch (const error& failure) {
            EXPECT_THAT(failure.what(), HasSubstr(why));
        }
    };
    refuses({.state = {{"q", "q_in"}}}, "no output 'q'; it has 'y', 'q_out'");
    refuses({.state = {{"q_out", "q"}}}, "no input 'q'; it has 'x', 'q_in'");
    refuses({.state = {{"q_out", "q_in"}, {"y", "q_in"}}}, "the input 'q_in' is there twice");
    refuses({.state = {{"q_out", "q_in"}, {"y", "x"}}}, "all inputs are state");
    refuses({.state = {{"q_out", "q_in"}}, .state_shapes = {{"x", {1, 1}}}}, "the input 'x' is no state");
    refuses({.state = {{"q_out", "q_in"}}, .state_shapes = {{"q_in", {1, 2}}}}, "cannot have this shape");
}

// A folder with the versions of one model.
struct repository {
    explicit repository(const std::string& config = R"({"versions": "latest"})") {
        add(1);
        say(config);
        models = std::make_unique<server>(model_source::repository(folder / ""), engine);
        models->load_all();
    }
    void say(const std::string& config) const { std::ofstream(folder / "m/config.json") << config; }
    void add(int version) const {
        const auto to = folder / ("m/" + std::to_string(version));
        std::filesystem::create_directories(to);
        std::ofstream(to / "model.onnx") << "x";
    }

    io::testing::temporary_directory folder;
    std::shared_ptr<summing_model> network = std::make_shared<summing_model>();
    fake_engine engine{[this](const model_version&) { return network; }};
    std::unique_ptr<server> models;
};

TEST(sequences, go_on_where_the_model_is_loaded_again_with_the_same_state) {
    repository files;
    ask(*files.models->find("m"), step(number(1), {1}, true));
    files.models->load("m");
    EXPECT_EQ(ask(*files.models->find("m"), step(number(1), {1})), floats{20});
    files.add(2);
    files.models->load("m");
    EXPECT_EQ(files.models->find("m")->version(), 2U);
    EXPECT_EQ(ask(*files.models->find("m"), step(number(1), {1})), floats{30});
    EXPECT_EQ(files.models->find("m")->statistics().sequences, 1U);
}

// Clients who name no version use the latest one: its sequences are not those of a version that goes.
TEST(sequences, of_a_version_that_goes_are_not_those_of_the_new_latest) {
    repository files(R"({"versions": [1]})");
    files.add(2);
    files.say(R"({"versions": [1, 2]})");
    files.models->load("m");
    ask(*files.models->find("m", 1), step(number(7), {1}, true));
    ask(*files.models->find("m"), step(number(7), {100}, true));
    files.add(3);
    files.say(R"({"versions": [2, 3]})");
    files.models->load("m");
    EXPECT_EQ(files.models->find("m")->version(), 3U);
    EXPECT_EQ(ask(*files.models->find("m", 2), step(number(7), {1})), floats{1010});
    EXPECT_THAT(why_not(*files.models->find("m"), step(number(7), {1}), refusal_kind::bad_request),
                HasSubstr("there is no sequence 7"));
}

TEST(sequences, end_at_the_next_step_where_the_state_is_another_one) {
    repository files;
    ask(*files.models->find("m"), step(number(1), {1}, true));
    files.network = std::make_shared<summing_model>(1, "memory");
    files.models->load("m");
    const auto model = files.models->find("m");
    EXPECT_THAT(why_not(*model, step(number(1), {1}), refusal_kind::bad_request),
                HasSubstr("the sequence 1 has ended: the model was loaded again"));
    EXPECT_THAT(why_not(*model, step(number(1), {1}), refusal_kind::bad_request), HasSubstr("there is no sequence 1"));
    EXPECT_EQ(ended(*model, sequence_end::replaced), 1U);
    EXPECT_EQ(model->statistics().sequences, 0U);
}

// Those that the old version has taken are its own; what comes after them continues from what they leave.
TEST(sequences, steps_that_wait_are_answered_while_the_model_is_loaded_again) {
    repository files;
    const auto old = files.network;
    ask(*files.models->find("m"), step(number(1), {1}, true));
    old->hold();
    std::vector<std::shared_ptr<test_call>> calls;
    for (int i = 0; i < 3; ++i) {
        calls.push_back(step(number(1), {1}));
        ASSERT_TRUE(files.models->find("m")->submit(calls.back()));
    }
    old->wait_until_running();
    const auto before = files.models->find("m");
    EXPECT_EQ(before->statistics().waiting, 2U);
    files.network = std::make_shared<summing_model>();
    std::thread loads([&] { files.models->load("m"); });
    while (files.models->find("m") == before) std::this_thread::yield();
    calls.push_back(step(number(1), {1}));
    ASSERT_TRUE(files.models->find("m")->submit(calls.back()));
    EXPECT_FALSE(calls.back()->is_answered());
    old->open();
    loads.join();
    float sum = 1;
    for (const auto& each : calls) EXPECT_EQ(each->get(), floats{10 * ++sum});
}

TEST(sequences, eight_threads_and_loads_disturb_no_sequence) {
    repository files(R"({"max_sequences": 8, "instances": 2})");
    std::atomic<bool> ends{false};
    std::thread loads([&] {
        while (!ends) files.models->load("m");
    });
    std::vector<std::thread> clients;
    for (std::uint64_t id = 1; id <= 8; ++id) {
        clients.emplace_back([&, id] {
            for (int turn = 0; turn < 5; ++turn) {
                float sum = 0;
                for (int i = 0; i < 40; ++i) {
                    const auto x = static_cast<float>(2 * (id + static_cast<std::uint64_t>(i)));
                    sum += x;
                    bool is_taken = false;
                    const auto call = step(number(id), {x}, i == 0, i == 39);
                    while (!is_taken) is_taken = files.models->find("m")->submit(call);
                    ASSERT_EQ(call->get(), floats{10 * sum});
                }
            }
        });
    }
    for (std::thread& each : clients) each.join();
    ends = true;
    loads.join();
    EXPECT_EQ(files.models->find("m")->statistics().sequences, 0U);
    EXPECT_EQ(ended(*files.models->find("m"), sequence_end::asked), 40U);
}

}  // namespace
}  // namespace sluice::serve::sequences_tests
