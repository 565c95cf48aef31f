// SPDX-License-Identifier: Apache-2.0
// Sequences whose states are in a folder that several servers share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "io/support/temporary_directory.hpp"
#include "serve/state_folder.hpp"
#include "serve/support/summing_model.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve::shared_states_tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::summing_model;
using testing::test_call;

using floats = std::vector<float>;
using step_number = std::optional<std::uint64_t>;

// A model that sums its steps, in several servers.
class shared_states : public ::testing::Test {
protected:
    struct asked {
        float x = 1;
        bool begins = false;
        bool ends = false;
        step_number step = {};
        std::uint64_t id = 7;
        std::string client = {};
        std::shared_ptr<request_budget> budget = {};
    };

    shared_states() { fs::permissions(folder / "", fs::perms::owner_all); }

    std::shared_ptr<served_model> serve(const std::shared_ptr<summing_model>& network, model_config config = {}) const {
        return served_model::make("m", 1, network, config, folder / "m");
    }
    std::shared_ptr<served_model> serve() const { return serve(std::make_shared<summing_model>()); }

    static std::shared_ptr<test_call> call_of(const asked& how) {
        auto made = std::make_shared<test_call>(floats{how.x}, std::vector<std::size_t>{1, 1});
        made->inputs.emplace_back();  // the state
        made->sequence = sequence_request{.id = {.text = {}, .number = how.id, .client = how.client.empty() ? 0U : 1U},
                                          .begins = how.begins,
                                          .ends = how.ends,
                                          .step = how.step,
                                          .client = how.client,
                                          .budget = how.budget};
        return made;
    }
    static float ask(served_model& on, const asked& how) {
        const auto call = call_of(how);
        EXPECT_TRUE(on.submit(call));
        return call->get().front();
    }
    static std::string why_not(served_model& on, const asked& how, refusal_kind kind) {
        try {
            ask(on, how);
            ADD_FAILURE() << "accepted";
        } catch (const refusal& why) {
            EXPECT_EQ(why.kind(), kind) << why.what();
            return why.what();
        }
        return {};
    }
    std::vector<fs::path> files() const {
        std::vector<fs::path> all;
        std::error_code failure, gone;
        do {  // again where a server has removed a folder meanwhile
            all.clear();
            fs::recursive_directory_iterator each(folder / "", failure);
            for (; !failure && each != fs::recursive_directory_iterator(); each.increment(failure))
                if (each->is_regular_file(gone) && !each->path().filename().native().starts_with('.'))
                    all.push_back(each->path());
        } while (failure);
        return all;
    }

    io::testing::temporary_directory folder;
};

TEST_F(shared_states, any_server_makes_the_next_step) {
    const std::array servers{serve(), serve(), serve()};
    EXPECT_EQ(ask(*servers[0], {.begins = true}), 10);
    float sum = 10;
    for (std::size_t i = 1; i < 30; ++i) {
        sum += 10;
        EXPECT_EQ(ask(*servers[i * 7 % 3], {}), sum) << i;
    }
    EXPECT_LE(files().size(), 2U);  // the last state, and the one before
    EXPECT_EQ(ask(*servers[1], {.ends = true}), sum + 10);
    for (const auto& each : servers)
        EXPECT_THAT(why_not(*each, {}, refusal_kind::bad_request), HasSubstr("there is no sequence 7"));
}

TEST_F(shared_states, a_server_that_has_gone_takes_no_state_with_it) {
    auto one = serve();
    EXPECT_EQ(ask(*one, {.x = 3, .begins = true}), 30);
    EXPECT_EQ(ask(*one, {.x = 4}), 70);
    one.reset();
    const auto other = serve();
    EXPECT_EQ(ask(*other, {.x = 5}), 120);
}

TEST_F(shared_states, a_step_that_is_asked_for_twice_is_made_once) {
    const auto one = serve(), other = serve();
    EXPECT_EQ(ask(*one, {.x = 1, .begins = true, .step = 0}), 10);
    EXPECT_EQ(ask(*one, {.x = 2, .step = 1}), 30);
    for (const auto& each : {one, other, one}) EXPECT_EQ(ask(*each, {.x = 2, .step = 1}), 30);  // no answer came
    EXPECT_EQ(ask(*other, {.x = 3, .step = 2}), 60);
    EXPECT_THAT(why_not(*one, {.step = 1}, refusal_kind::bad_request), HasSubstr("the next one is step 3"));
    EXPECT_THAT(why_not(*one, {.step = 4}, refusal_kind::bad_request), HasSubstr("the next one is step 3"));
    EXPECT_EQ(ask(*one, {.x = 4}), 100);  // the next one, whatever its number
    EXPECT_EQ(ask(*one, {.x = 5, .ends = true, .step = 4}), 150);
    EXPECT_EQ(ask(*other, {.x = 5, .ends = true, .step = 4}), 150);
    why_not(*other, {.x = 5, .step = 5}, refusal_kind::bad_request);
    why_not(*other, {}, refusal_kind::bad_request);
    EXPECT_EQ(ask(*other, {.x = 8, .begins = true, .step = 0}), 80);
    EXPECT_EQ(ask(*one, {.x = 8, .begins = true, .step = 0}), 80);
    EXPECT_EQ(ask(*other, {.x = 1, .step = 1}), 90);
}

TEST_F(shared_states, in_memory_a_step_has_its_number_too) {
    const auto model = served_model::make("m", 1, std::make_shared<summing_model>(), {});
    EXPECT_EQ(ask(*model, {.begins = true, .step = 0}), 10);
    EXPECT_EQ(ask(*model, {.step = 1}), 20);
    EXPECT_THAT(why_not(*model, {.step = 1}, refusal_kind::bad_request), HasSubstr("the next one is step 2"));
    EXPECT_EQ(ask(*model, {.step = 2}), 30);
}

TEST_F(shared_states, a_sequence_that_begins_again_elsewhere_is_the_new_one) {
    const auto one = serve(), other = serve();
    EXPECT_EQ(ask(*one, {.begins = true}), 10);
    for (int i = 0; i < 5; ++i) ask(*one, {});
    EXPECT_EQ(ask(*other, {.x = 100, .begins = true}), 1000);
    EXPECT_EQ(ask(*one, {}), 1010);
    EXPECT_EQ(ask(*other, {}), 1020);
}

TEST_F(shared_states, clients_have_sequences_of_their_own) {
    const auto one = serve(), other = serve();
    EXPECT_EQ(ask(*one, {.x = 1, .begins = true, .client = "a"}), 10);
    EXPECT_EQ(ask(*one, {.x = 2, .begins = true}), 20);
    EXPECT_EQ(ask(*other, {.client = "a"}), 20);
    EXPECT_EQ(ask(*other, {}), 30);
    const auto third = serve();  // where the other client has the same number
    why_not(*third, {.client = "b"}, refusal_kind::bad_request);
}

// A balancer gives a step to another server, because the first one seems to hang.
TEST_F(shared_states, of_two_servers_that_make_one_step_one_is_refused) {
    const auto slow = std::make_shared<summing_model>();
    const auto one = serve(slow), other = serve();
    EXPECT_EQ(ask(*one, {.begins = true, .step = 0}), 10);
    slow->hold();
    const auto hanging = call_of({.x = 5});
    ASSERT_TRUE(one->submit(hanging));
    slow->wait_until_running();
    EXPECT_EQ(ask(*other, {.x = 5}), 60);
    EXPECT_EQ(ask(*other, {.x = 1}), 70);
    slow->open();
    try {
        hanging->get();
        ADD_FAILURE() << "the step was made twice";
    } catch (const refusal& why) {
        EXPECT_THAT(why.what(), HasSubstr("has made this step of the sequence 7"));
    }
    EXPECT_EQ(ask(*one, {.x = 2}), 90);
}

// What a server makes long after the others have made more is no step, however many files have come and gone.
TEST_F(shared_states, a_step_that_was_made_too_late_changes_nothing) {
    const auto slow = std::make_shared<summing_model>();
    const auto one = serve(slow), other = serve();
    for (const bool begins_again : {false, true}) {
        for (const bool is_start : {false, true}) {
            ask(*one, {.begins = true});
            ask(*one, {});
            slow->hold();
            const auto late = call_of({.x = 1000, .begins = is_start});
            ASSERT_TRUE(one->submit(late));
            slow->wait_until_running();
            float sum = 20;
            if (begins_again || is_start) {
                EXPECT_EQ(ask(*other, {.x = 3, .begins = true}), 30);
                sum = 30;
            }
            for (int i = 0; i < 4; ++i) EXPECT_EQ(ask(*other, {.x = 1}), sum += 10);
            slow->open();
            EXPECT_THROW(late->get(), refusal);
            EXPECT_EQ(ask(*one, {.x = 1}), sum += 10);
            EXPECT_EQ(ask(*other, {.x = 1}), sum += 10);
            EXPECT_EQ(files().size(), 2U);
        }
    }
}

// It waits for its turn here, and a balancer has given it to another server meanwhile.
TEST_F(shared_states, a_start_counts_from_its_arrival) {
    const auto slow = std::make_shared<summing_model>();
    const auto one = serve(slow), other = serve();
    slow->hold();
    const auto first = call_of({.begins = true, .id = 50});
    ASSERT_TRUE(one->submit(first));
    slow->wait_until_running();
    const auto late = call_of({.x = 1000, .begins = true});
    ASSERT_TRUE(one->submit(late));
    EXPECT_EQ(ask(*other, {.x = 3, .begins = true}), 30);
    EXPECT_EQ(ask(*other, {}), 40);
    slow->open();
    EXPECT_THROW(late->get(), refusal);
    EXPECT_EQ(first->get().front(), 10);
    EXPECT_EQ(ask(*one, {}), 50);
}

TEST_F(shared_states, versions_that_are_served_together_have_states_of_their_own) {
    const io::testing::temporary_directory repository;
    for (const char* const version : {"m/1", "m/2"}) {
        fs::create_directories(repository / version);
        std::ofstream(repository / version / "model.onnx") << "x";
    }
    std::ofstream(repository / "m/config.json") << R"({"versions": "all"})";
    testing::fake_engine engine([](const model_version&) { return std::make_shared<summing_model>(); });
    server models(model_source::repository(repository / ""), engine, {}, {.states = folder / ""});
    models.load_all();
    EXPECT_EQ(ask(*models.find("m", 1), {.x = 1, .begins = true}), 10);
    EXPECT_EQ(ask(*models.find("m", 2), {.x = 2, .begins = true}), 20);
    EXPECT_EQ(ask(*models.find("m", 1), {}), 20);
    EXPECT_EQ(ask(*models.find("m", 2), {}), 30);
    models.load("m");  // each continues what it had
    EXPECT_EQ(ask(*models.find("m", 1), {}), 30);
    EXPECT_EQ(ask(*models.find("m", 2), {}), 40);
}

TEST_F(shared_states, a_new_version_continues_the_sequences_of_the_one_before) {
    const io::testing::temporary_directory repository;
    fs::create_directories(repository / "m/1");
    std::ofstream(repository / "m/1/model.onnx") << "x";
    testing::fake_engine engine([](const model_version&) { return std::make_shared<summing_model>(); });
    server models(model_source::repository(repository / ""), engine, {}, {.states = folder / ""});
    models.load_all();
    EXPECT_EQ(ask(*models.find("m"), {.begins = true}), 10);
    fs::create_directories(repository / "m/2");
    std::ofstream(repository / "m/2/model.onnx") << "x";
    models.load("m");
    EXPECT_EQ(models.find("m")->version(), 2U);
    EXPECT_EQ(ask(*models.find("m"), {}), 20);
}

// Servers that look for idle sequences meet folders in which another one is about to write.
TEST_F(shared_states, a_sequence_begins_while_servers_remove_what_is_empty) {
    std::atomic<bool> ends{false};
    const std::atomic<bool> stops{false};
    std::deque<state_folder> folders;
    for (int i = 0; i < 4; ++i) folders.emplace_back(folder / "m");
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < folders.size(); ++i)
        others.emplace_back([&, i] {
            while (!ends) folders[i].remove_idle(1h, stops);
        });
    for (std::uint64_t id = 0; id < 2000; ++id) {
        const sequence_request of{.id = {.text = {}, .number = id, .client = 1}, .client = std::to_string(id % 100)};
        try {
            EXPECT_TRUE(folders[0].write(of, {.life = 1, .steps = 1}, {}));
            EXPECT_TRUE(folders[0].write(of, {.life = 1, .steps = 2, .has_ended = true}, {}));  // which leaves nothing
        } catch (const refusal& why) {
            ADD_FAILURE() << why.what();
            break;
        }
    }
    ends = true;
    for (std::thread& each : others) each.join();
}

TEST_F(shared_states, the_last_step_of_each_of_many_sequences_may_be_asked_for_again) {
    state_folder states(folder / "m");
    constexpr std::uint64_t count = 1100;
    const auto its = [](std::uint64_t id) {
        return sequence_request{.id = {.text = {}, .number = id, .client = 0}, .ends = true, .step = 0, .client = {}};
    };
    for (std::uint64_t id = 0; id < count; ++id)
        ASSERT_TRUE(states.write(its(id), {.life = 1, .steps = 1, .has_ended = true}, {}));
    EXPECT_EQ(files().size(), count);
    const auto now = fs::file_time_type::clock::now();  // of more than 1000 each stays for 10 s
    for (const fs::path& each : files()) {
        const bool is_old = each.parent_path().filename() != "n7";
        fs::last_write_time(each, is_old ? now - 1min : now + 1min);
    }
    const std::atomic<bool> stops{false};
    states.remove_idle(1h, stops);
    EXPECT_EQ(files().size(), 1U);
    EXPECT_TRUE(states.find(its(7)));
    EXPECT_FALSE(states.find(its(8)));
}

TEST_F(shared_states, steps_on_their_way_stay_in_order_when_the_model_is_loaded_again) {
    const auto slow = std::make_shared<summing_model>();
    auto before = serve(slow);
    ask(*before, {.begins = true});
    slow->hold();
    const auto first = call_of({.x = 1}), second = call_of({.x = 2}), third = call_of({.x = 3});
    ASSERT_TRUE(before->submit(first));
    slow->wait_until_running();
    ASSERT_TRUE(before->submit(second));
    const auto after = serve();
    after->continue_from(*before);
    ASSERT_TRUE(after->submit(third));
    slow->open();
    EXPECT_EQ(first->get().front(), 20);
    EXPECT_EQ(second->get().front(), 40);
    EXPECT_EQ(third->get().front(), 70);
    before.reset();
    EXPECT_EQ(ask(*after, {}), 80);
    const auto elsewhere = served_model::make("m", 1, std::make_shared<summing_model>(), {}, folder / "other");
    elsewhere->continue_from(*after);
    why_not(*elsewhere, {}, refusal_kind::bad_request);
}

TEST_F(shared_states, an_idle_sequence_ends_and_leaves_nothing) {
    model_config config;
    config.sequence_idle_ms = 100;
    const auto one = serve(std::make_shared<summing_model>(), config);
    EXPECT_EQ(ask(*one, {.begins = true}), 10);
    EXPECT_EQ(ask(*one, {.begins = true, .ends = true, .id = 8}), 10);
    const auto end = std::chrono::steady_clock::now() + 20s;
    bool is_empty = false;
    while (!(is_empty = files().empty()) && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(is_empty);
    const auto other = serve(std::make_shared<summing_model>(), config);
    why_not(*other, {}, refusal_kind::bad_request);
    EXPECT_EQ(ask(*one, {.begins = true}), 10);
}

TEST_F(shared_states, more_sequences_than_have_room_in_memory_go_on) {
    model_config config;
    config.max_sequences = 3;
    const auto one = serve(std::make_shared<summing_model>(), config);
    const auto other = serve();
    for (std::uint64_t id = 1; id <= 3; ++id) ask(*one, {.begins = true, .id = id});
    why_not(*one, {.begins = true, .id = 4}, refusal_kind::queue_full);
    for (std::uint64_t id = 4; id <= 6; ++id) ask(*other, {.begins = true, .id = id});
    for (int round = 2; round < 5; ++round)
        for (std::uint64_t id = 1; id <= 6; ++id) EXPECT_EQ(ask(*one, {.id = id}), 10.0F * static_cast<float>(round));
}

TEST_F(shared_states, what_has_ended_on_any_server_does_not_count) {
    model_config config;
    config.max_sequences = 2;
    const std::array servers{serve(std::make_shared<summing_model>(), config),
                             serve(std::make_shared<summing_model>(), config)};
    for (std::uint64_t id = 1; id <= 20; ++id) {
        EXPECT_EQ(ask(*servers[id % 2], {.begins = true, .step = 0, .id = id}), 10);
        EXPECT_EQ(ask(*servers[id % 2], {.step = 1, .id = id}), 20);
        EXPECT_EQ(ask(*servers[id % 2], {.ends = true, .step = 2, .id = id}), 30);
    }
    // A client's own limit counts its sequences on all servers, as far as this one has seen them.
    const auto budget = std::make_shared<request_budget>(100'000, 1, std::make_shared<request_budget>(100'000));
    EXPECT_EQ(ask(*servers[0], {.begins = true, .id = 30, .client = "a", .budget = budget}), 10);
    why_not(*servers[0], {.begins = true, .id = 31, .client = "a", .budget = budget}, refusal_kind::queue_full);
    EXPECT_EQ(ask(*servers[0], {.ends = true, .id = 30, .client = "a", .budget = budget}), 20);
    EXPECT_EQ(ask(*servers[0], {.begins = true, .id = 31, .client = "a", .budget = budget}), 10);
}

TEST_F(shared_states, at_its_limit_a_client_may_begin_again_and_what_ended_elsewhere_makes_room) {
    const auto one = serve(), other = serve();
    const auto part = [] {
        return std::make_shared<request_budget>(100'000, 1, std::make_shared<request_budget>(100'000));
    };
    const auto budget = part(), of_other = part();  // each server has its own
    EXPECT_EQ(ask(*one, {.begins = true, .client = "a", .budget = budget}), 10);
    EXPECT_EQ(ask(*other, {.x = 2, .begins = true, .client = "a", .budget = of_other}), 20);
    EXPECT_EQ(ask(*one, {.x = 3, .begins = true, .client = "a", .budget = budget}), 30);
    why_not(*one, {.begins = true, .id = 8, .client = "a", .budget = budget}, refusal_kind::queue_full);
    EXPECT_EQ(ask(*other, {.ends = true, .client = "a", .budget = of_other}), 40);
    EXPECT_EQ(ask(*one, {.begins = true, .id = 8, .client = "a", .budget = budget}), 10);
}

// They are read while batches are computed, and batches are computed while they are read.
TEST_F(shared_states, steps_that_are_refused_hold_up_no_others) {
    for (const std::uint64_t delay : {0, 500}) {  // also where batches wait for more
        model_config config;
        config.max_delay_us = delay;
        const auto one = serve(std::make_shared<summing_model>(), config);
        std::atomic<bool> ends{false};
        std::vector<std::thread> strangers;
        for (std::uint64_t i = 0; i < 2; ++i) {
            strangers.emplace_back([&, i] {
                std::deque<std::shared_ptr<test_call>> waiting;  // so that there is always a turn
                for (std::uint64_t id = 1000 * (1 + i); !ends || !waiting.empty(); ++id) {
                    if (!ends) {
                        waiting.push_back(call_of({.id = 1000 * (1 + i) + id % 200}));
                        EXPECT_TRUE(one->submit(waiting.back()));
                    }
                    if (!ends && waiting.size() < 100) continue;
                    EXPECT_THROW(waiting.front()->get(), refusal);
                    waiting.pop_front();
                }
            });
        }
        EXPECT_EQ(ask(*one, {.begins = true}), 10);
        for (int i = 2; i < 200; ++i) EXPECT_EQ(ask(*one, {}), 10.0F * static_cast<float>(i));
        ends = true;
        for (std::thread& each : strangers) each.join();
    }
}

TEST_F(shared_states, a_server_begins_only_with_a_folder_that_it_can_use) {
    const io::testing::temporary_directory repository;
    testing::fake_engine engine([](const model_version&) { return std::make_shared<summing_model>(); });
    const auto begin = [&](const server_options& options) {
        server(model_source::repository(repository / ""), engine, {}, options);
    };
    EXPECT_NO_THROW(begin({.states = folder / ""}));
    EXPECT_THROW(begin({.states = folder / "nowhere"}), file_error);
    EXPECT_THROW(begin({.most_bytes = 1}), error);
}

TEST_F(shared_states, a_sequence_of_one_step_without_a_number_leaves_nothing) {
    const auto one = serve();
    EXPECT_EQ(ask(*one, {.begins = true, .ends = true}), 10);
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(ask(*one, {.begins = true}), 10);
    EXPECT_EQ(ask(*one, {.ends = true}), 20);
    EXPECT_TRUE(files().empty());
}

// It comes back; a sequence that cannot be read has not ended.
TEST_F(shared_states, a_folder_that_is_gone_ends_no_sequence) {
    const auto one = serve(), other = serve();
    ask(*one, {.begins = true});
    fs::rename(folder / "m", folder / "away");
    for (const auto& each : {one, other})
        EXPECT_THAT(why_not(*each, {}, refusal_kind::unavailable), HasSubstr("cannot be read"));
    EXPECT_FALSE(fs::exists(folder / "m"));  // no other one is made in its place
    fs::rename(folder / "away", folder / "m");
    EXPECT_EQ(ask(*other, {}), 20);
    EXPECT_EQ(ask(*one, {}), 30);
}

TEST_F(shared_states, what_is_damaged_is_refused) {
    const auto change = [&](const std::function<void(const fs::path&)>& how, const char* why) {
        auto one = serve();
        ask(*one, {.begins = true});
        ask(*one, {});
        one.reset();
        for (const fs::path& each : files()) how(each);
        const auto other = serve();
        const std::string refused = why_not(*other, {}, refusal_kind::failed);
        EXPECT_THAT(refused, HasSubstr(why));
        EXPECT_EQ(ask(*other, {.begins = true}), 10);
    };
    change([](const fs::path& file) { fs::resize_file(file, 0); }, "it is no state");
    change([](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); }, "its checksum is wrong");
    change(
        [](const fs::path& file) {
            std::fstream to(file, std::ios::in | std::ios::out | std::ios::binary);
            to.seekp(-1, std::ios::end);
            to.put('x');
        },
        "its checksum is wrong");
    change([](const fs::path& file) { fs::resize_file(file, fs::file_size(file) + 5); }, "its checksum is wrong");
}

// Any bytes with a right checksum.
TEST_F(shared_states, any_contents_are_refused_or_read_within_their_bytes) {
    const auto one = serve();
    ask(*one, {.begins = true});
    const fs::path file = files().front();
    std::string bytes;
    {
        std::ifstream from(file, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(from), {});
    }
    constexpr std::size_t head = 15 + 8;
    ASSERT_GT(bytes.size(), head);
    std::mt19937 random(1);
    int refused = 0;
    for (int i = 0; i < 2000; ++i) {
        std::string made = bytes;
        for (unsigned changes = 1 + random() % 4; changes != 0; --changes)
            made[head + random() % (made.size() - head)] = static_cast<char>(random());
        if (random() % 3 == 0) made.resize(head + random() % (made.size() - head));
        std::uint64_t sum = 0xcbf2'9ce4'8422'2325U;
        for (const char each : std::string_view(made).substr(head))
            sum = (sum ^ static_cast<unsigned char>(each)) * 0x100'0000'01b3U;
        std::memcpy(made.data() + 15, &sum, sizeof(sum));
        std::ofstream(file, std::ios::binary) << made;
        const auto other = serve();
        try {
            ask(*other, {.step = 1});
            for (const fs::path& each : files())
                if (each != file) fs::remove(each);  // the step
        } catch (const refusal&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, 1000);
}

TEST_F(shared_states, a_step_whose_state_cannot_be_written_is_not_made) {
    const auto one = serve();
    EXPECT_EQ(ask(*one, {.begins = true}), 10);
    // Root may write everywhere, but not into a folder that is a file.
    fs::rename(folder / "m", folder / "away");
    std::ofstream(folder / "m") << "x";
    EXPECT_THAT(why_not(*one, {.begins = true, .id = 9}, refusal_kind::unavailable), HasSubstr("cannot be"));
    fs::remove(folder / "m");
    fs::rename(folder / "away", folder / "m");
    EXPECT_EQ(ask(*one, {}), 20);
}

TEST_F(shared_states, a_model_with_another_state_refuses_those_of_before) {
    const auto one = serve();
    ask(*one, {.begins = true});
    const auto other = serve(std::make_shared<summing_model>(1, "memory"));
    EXPECT_THAT(why_not(*other, {}, refusal_kind::bad_request), HasSubstr("begin it again with sequence_start"));
}

TEST_F(shared_states, a_state_counts_for_the_memory_of_the_server_that_has_it) {
    const auto budget = std::make_shared<request_budget>(10'000);
    const auto one = serve();
    auto other = serve();
    ask(*one, {.begins = true});
    EXPECT_EQ(ask(*other, {.budget = budget}), 20);
    EXPECT_GT(budget->bytes(), 1000U);
    other.reset();
    EXPECT_EQ(budget->bytes(), 0U);
    const auto small = std::make_shared<request_budget>(100);
    const auto third = serve();
    why_not(*third, {.budget = small}, refusal_kind::unavailable);
}

TEST_F(shared_states, a_folder_that_others_may_write_is_refused) {
    fs::permissions(folder / "", fs::perms::owner_all | fs::perms::others_write);
    EXPECT_THROW(serve(), file_error);
    fs::permissions(folder / "", fs::perms::owner_all | fs::perms::group_all);  // a volume of Kubernetes
    EXPECT_NO_THROW(serve());
    const auto serve_in = [&](const char* where) {
        served_model::make("m", 1, std::make_shared<summing_model>(), {}, folder / where);
    };
    EXPECT_THROW(serve_in("nowhere/m"), file_error);
    std::ofstream(folder / "file") << "x";
    EXPECT_THROW(serve_in("file/m"), file_error);
    EXPECT_THROW(serve_in("file"), file_error);
}

TEST_F(shared_states, ids_of_any_bytes_are_names_of_files) {
    const auto one = serve(), other = serve();
    const auto ask_text = [&](served_model& on, const std::string& id, bool begins) {
        const auto call = call_of({.begins = begins});
        call->sequence->id = {.text = id};
        call->sequence->client = std::string(64, '/');
        EXPECT_TRUE(on.submit(call));
        return call->get().front();
    };
    std::string all;
    for (int i = 1; i < 129; ++i) all += static_cast<char>(2 * i);
    for (const std::string& id : {std::string("../../x"), std::string("."), std::string(128, '\xff'), all,
                                  std::string("7"), std::string("a\0b", 3)}) {
        EXPECT_EQ(ask_text(*one, id, true), 10);
        EXPECT_EQ(ask_text(*other, id, false), 20);
    }
    EXPECT_EQ(ask(*one, {.x = 5, .begins = true}), 50);  // 7 is not "7"
    EXPECT_EQ(ask_text(*one, "7", false), 30);
}

// Servers end and come at random; balancers give steps to any, and repeat those that had no answer.
TEST_F(shared_states, nothing_is_lost_or_wrong_while_servers_come_and_go) {
    constexpr std::size_t count = 3;
    std::array<std::shared_ptr<served_model>, count> servers{serve(), serve(), serve()};
    std::mutex mutex;  // of these
    std::atomic<bool> ends{false};
    std::thread operations([&] {
        std::mt19937 random(5);
        while (!ends) {
            std::shared_ptr<served_model> made = serve(), before;
            {
                const std::lock_guard lock(mutex);
                before = std::exchange(servers[random() % count], made);
            }
            before->close();
            std::this_thread::sleep_for(2ms);
        }
    });
    std::vector<std::thread> clients;
    for (std::uint64_t id = 1; id <= 6; ++id) {
        clients.emplace_back([&, id] {
            std::mt19937 random(static_cast<unsigned>(id));
            const auto any = [&] {
                const std::lock_guard lock(mutex);
                return servers[random() % count];
            };
            for (int sequence = 0; sequence < 4; ++sequence) {
                float sum = 0;
                for (std::uint64_t step = 0; step < 50; ++step) {
                    const auto x = static_cast<float>(random() % 12);  // 13 fails
                    sum += x;
                    const asked how{.x = x, .begins = step == 0, .ends = step == 49, .step = step, .id = id};
                    const unsigned times = 1 + (random() % 4 == 0 ? 1U : 0U);
                    for (unsigned i = 0; i < times; ++i) {
                        while (true) {
                            const auto call = call_of(how);
                            if (!any()->submit(call)) continue;  // it ends
                            EXPECT_EQ(call->get().front(), 10 * sum) << id << ", step " << step;
                            break;
                        }
                    }
                }
            }
        });
    }
    for (std::thread& each : clients) each.join();
    ends = true;
    operations.join();
}

}  // namespace
}  // namespace sluice::serve::shared_states_tests
