// SPDX-License-Identifier: Apache-2.0
// What happens when worker processes are killed, end, stop, or compute for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/support/fake_engine.hpp"
#include "serve/workers/peers.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/run_guard.hpp"
#include "sluice/serve/refusal.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/server.hpp"
#include "sluice/serve/worker_engine.hpp"

namespace sluice::serve::worker_fault_tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kept_lines;
using testing::peers;
using testing::trouble;
using testing::wait_until;

// That may end as often as the test likes, and are started again at once.
worker_engine_options immortal(std::size_t workers, std::size_t spares) {
    worker_engine_options options = peers(workers, spares);
    options.most_ends = 100'000;
    options.restart_delay = 0ms;
    return options;
}

bool is_up(const worker_engine& engine, std::size_t workers) { return engine.counts().up == workers; }

std::size_t descriptors() {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

// A batch that meets such a device, and then another one, would have ended two workers, and would be refused.
TEST(worker_faults, a_worker_whose_device_fails_while_it_has_no_batch_is_replaced) {
    worker_engine engine(immortal(1, 1));
    const trouble its(engine);
    EXPECT_TRUE(its.answers(testing::lost_later_number));
    wait_until([&] { return engine.counts().restarts == 1 && is_up(engine, 2); });
    EXPECT_EQ(engine.counts().run_again, 0U);
    EXPECT_TRUE(its.answers(2000));
}

TEST(worker_faults, a_spare_that_is_stopped_is_replaced) {
    worker_engine_options options = immortal(1, 1);
    options.timeout = 200ms;
    worker_engine engine(options);
    const trouble its(engine);
    for (const auto id : engine.process_ids()) ::kill(id, SIGSTOP);
    wait_until([&] { return engine.counts().restarts == 2 && is_up(engine, 2); });
    EXPECT_TRUE(its.answers(2000));
}

TEST(worker_faults, workers_that_are_killed_under_load_lose_no_batch_and_make_none_wrong) {
    worker_engine engine(immortal(2, 1));
    const trouble its(engine);
    std::atomic<bool> ends{false};
    std::array<std::atomic<std::uint64_t>, 4> asked{};
    std::atomic<int> wrong{0}, lost{0}, twice{0};
    std::vector<std::thread> clients;
    for (std::size_t i = 0; i < asked.size(); ++i) {
        clients.emplace_back([&, i] {
            while (!ends) {
                try {
                    if (!its.answers(static_cast<float>(2000 + asked.size() * asked[i] + i))) ++wrong;
                } catch (const refusal&) {  // two workers have ended with it
                    ++twice;
                } catch (const std::exception&) {
                    ++lost;
                }
                ++asked[i];
            }
        });
    }
    constexpr std::uint64_t kills = 12;
    for (std::uint64_t i = 0; i < kills; ++i) {
        const auto ids = engine.process_ids();
        EXPECT_EQ(ids.size(), 3U);
        if (!ids.empty()) ::kill(ids.at(i % 3), SIGKILL);
        wait_until([&] { return engine.counts().restarts == i + 1 && is_up(engine, 3); });
        // What ran on that worker is answered before the next one is killed.
        for (const auto& each : asked) wait_until([&, before = each.load()] { return each > before + 5; });
    }
    ends = true;
    for (std::thread& each : clients) each.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(twice, 0);
    EXPECT_EQ(engine.counts().restarts, kills);
    EXPECT_EQ(engine.counts().given_up, 0U);
}

TEST(worker_faults, a_batch_whose_worker_ends_runs_again_once) {
    kept_lines lines;
    worker_engine_options options = immortal(1, 1);
    options.log = lines.sink();
    worker_engine engine(options);
    const trouble its(engine);
    EXPECT_TRUE(its.answers(testing::killed_once_number));
    EXPECT_EQ(engine.counts().run_again, 1U);
    for (const float number :
         {testing::killed_number, testing::exit_number, testing::lost_number, testing::wrong_number}) {
        try {
            its.run(number);
            FAIL();
        } catch (const refusal& why) {
            EXPECT_EQ(why.kind(), refusal_kind::failed);
            EXPECT_THAT(why.why(), HasSubstr("two worker processes have ended"));
        }
        EXPECT_TRUE(its.answers(5));
    }
    wait_until([&] { return is_up(engine, 2); });
    const auto ends = lines.of("worker_ended");
    EXPECT_THAT(ends, Contains(HasSubstr("signal 9")));
    EXPECT_THAT(ends, Contains(HasSubstr("it ended with status 7")));
    EXPECT_THAT(ends, Contains(HasSubstr("its device has failed: the device is lost")));
    EXPECT_THAT(ends, Contains(HasSubstr("an answer has other outputs than the model")));
    EXPECT_FALSE(its.model().is_lost());
}

TEST(worker_faults, a_worker_that_does_not_answer_in_time_is_killed_and_replaced) {
    kept_lines lines;
    worker_engine_options options = immortal(1, 1);
    options.timeout = 3s;
    options.log = lines.sink();
    worker_engine engine(options);
    const trouble its(engine);
    EXPECT_THROW(its.run(testing::hung_number), refusal);  // on two of them
    EXPECT_TRUE(its.answers(1));
    wait_until([&] { return is_up(engine, 2); });
    for (const int id : engine.process_ids()) ::kill(id, SIGSTOP);  // one of them computes, and both come back
    EXPECT_TRUE([&] {
        try {
            return its.answers(2);
        } catch (const refusal&) {
            return its.answers(2);
        }
    }());
    EXPECT_THAT(lines.of("worker_ended"), Contains(HasSubstr("a batch took longer than 3 s, so it was killed")));
}

TEST(worker_faults, time_without_a_batch_does_not_count) {
    worker_engine_options options = immortal(1, 0);
    options.timeout = 4s;
    worker_engine engine(options);
    const trouble its(engine);
    std::this_thread::sleep_for(4200ms);
    EXPECT_TRUE(its.answers(1));
    EXPECT_EQ(engine.counts().restarts, 0U);
}

TEST(worker_faults, time_in_which_other_batches_are_computed_does_not_count) {
    worker_engine_options options = immortal(1, 0);
    options.timeout = 5s;
    worker_engine engine(options);
    const trouble its(engine);
    std::vector<std::future<bool>> clients;
    for (std::size_t i = 0; i < options.hatches; ++i)  // 6 s for all
        clients.push_back(std::async(std::launch::async, [&] { return its.answers(testing::in_line_number); }));
    for (std::future<bool>& each : clients) EXPECT_TRUE(each.get());
    EXPECT_EQ(engine.counts().restarts, 0U);
}

TEST(worker_faults, a_batch_that_hangs_is_found_while_others_are_answered) {
    worker_engine_options options = immortal(1, 1);
    options.timeout = 2s;
    worker_engine engine(options);
    const trouble its(engine);
    std::atomic<bool> ends{false};
    std::atomic<int> answers{0};
    std::thread others([&] {
        while (!ends) {
            try {
                answers += its.answers(1) ? 1 : 0;
            } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): both workers that had it were killed
            }
        }
    });
    EXPECT_THROW(its.run(testing::hung_number), refusal);  // on two of them
    ends = true;
    others.join();
    EXPECT_GT(answers.load(), 100);
    wait_until([&] { return engine.counts().restarts >= 2 && is_up(engine, 2); });
}

TEST(worker_faults, a_batch_waits_for_a_worker_as_long_as_a_batch_may_take) {
    const io::testing::temporary_directory folder;
    const fs::path program = folder / "peer";
    fs::copy_file(SLUICE_WORKER_PEER, program);
    worker_engine_options options = immortal(1, 0);
    options.timeout = 2s;
    options.command = {program.string()};
    worker_engine engine(options);
    const trouble its(engine);
    fs::remove(program);
    ::kill(engine.process_ids().at(0), SIGKILL);
    wait_until([&] { return engine.counts().restarts == 1; });
    try {
        its.run(1);
        FAIL();
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::unavailable);
        EXPECT_TRUE(why.is_for_now());
        EXPECT_THAT(why.why(), HasSubstr("no worker process has had the model 'a' for 2 s: "));
    }
    EXPECT_FALSE(its.model().is_lost());
    fs::copy_file(SLUICE_WORKER_PEER, program);
    wait_until([&] { return is_up(engine, 1); });
    EXPECT_TRUE(its.answers(1));
}

TEST(worker_faults, a_run_that_no_client_waits_for_ends_and_its_hatch_is_used_again) {
    worker_engine_options options = immortal(1, 0);
    options.hatches = 1;
    worker_engine engine(options);
    const trouble its(engine);
    const auto begin = std::chrono::steady_clock::now();
    {
        const run_guard guard([] { throw error(errc::canceled, "the client has gone"); });
        EXPECT_THROW(its.run(testing::slow_number), error);
    }
    EXPECT_TRUE(its.answers(1));  // on the only hatch
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
    EXPECT_EQ(engine.counts().restarts, 0U);
}

TEST(worker_faults, a_worker_that_ends_too_often_is_given_up_and_its_models_say_why) {
    kept_lines lines;
    const io::testing::temporary_directory folder;
    fs::create_directory(folder / "a");
    fs::copy_file(SLUICE_SOURCE_DIR "/models/digits.onnx", folder / "a/model.onnx");
    worker_engine_options options = peers(1, 0);
    options.restart_delay = 1ms;
    options.log = lines.sink();
    worker_engine engine(options);
    server models(model_source::repository(folder / ""), engine);
    models.load_all();
    EXPECT_TRUE(models.is_ready());
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(models.is_ready());  // a worker that is replaced is no failure
        wait_until([&] { return is_up(engine, 1); });
        const auto before = engine.counts();
        ::kill(engine.process_ids().at(0), SIGKILL);
        wait_until([&] { return engine.counts().restarts + engine.counts().given_up > before.restarts; });
    }
    wait_until([&] { return !models.is_ready(); });
    EXPECT_EQ(engine.counts().given_up, 1U);
    const auto rows = models.index();
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].state, model_state::failed);
    EXPECT_THAT(rows[0].reason, HasSubstr("its worker processes are given up"));
    EXPECT_THAT(rows[0].reason, HasSubstr("signal 9"));
    wait_until([&] { return !lines.of("worker_given_up").empty(); });  // lines come a little later
    EXPECT_THAT(lines.of("worker_given_up"), Contains(HasSubstr("It has ended 5 times within a minute")));
    EXPECT_THAT(models.find("a")->network().lost_devices(), Contains("worker 0 (cpu:0)"));
    EXPECT_THROW(models.load("a"), error);
}

TEST(worker_faults, a_model_that_crashes_at_load_takes_no_other_with_it) {
    worker_engine engine(peers(1, 1));
    const trouble good(engine);
    for (int i = 0; i < 6; ++i) {  // as often as would be too often
        try {
            const trouble bad(engine, "crash");
            FAIL();
        } catch (const file_error& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("the worker process that loaded the model has ended: "));
        }
        EXPECT_TRUE(good.answers(static_cast<float>(i)));
    }
    EXPECT_EQ(engine.counts().given_up, 0U);
    EXPECT_EQ(engine.counts().run_again, 0U);  // it was the spare
}

TEST(worker_faults, a_model_whose_trial_ends_workers_is_refused_after_two) {
    worker_engine engine(peers(1, 1));
    const trouble good(engine), bad(engine, "deadly");
    EXPECT_THROW(served_model::make("bad", 1, engine.load({"bad", 1, bad.file()}, {}), {}), refusal);
    EXPECT_TRUE(good.answers(1));
    wait_until([&] { return is_up(engine, 2); });
    EXPECT_EQ(engine.counts().restarts, 2U);
}

TEST(worker_faults, a_request_that_ends_workers_ends_two_and_fails_alone) {
    worker_engine engine(peers(1, 1));
    const trouble its(engine);
    model_config config;
    config.max_batch = 4;
    config.max_delay_us = 60'000'000;  // until there are four
    const auto served = served_model::make("a", 1, engine.load({"a", 1, its.file()}, {}), config);
    std::vector<std::shared_ptr<testing::test_call>> calls;
    for (const float number : {testing::killed_number, 2.f, 3.f, 4.f}) {
        calls.push_back(testing::row_of(number));
        served->submit(calls.back());
    }
    try {
        calls[0]->get();
        FAIL();
    } catch (const refusal& why) {
        EXPECT_EQ(why.kind(), refusal_kind::failed);
        EXPECT_THAT(why.why(), HasSubstr("two worker processes have ended"));
    }
    for (std::size_t i = 1; i < calls.size(); ++i) EXPECT_EQ(calls[i]->get().at(0), static_cast<float>(i + 1));
    wait_until([&] { return is_up(engine, 2); });
    EXPECT_EQ(engine.counts().restarts, 2U);
}

TEST(worker_faults, loads_with_long_messages_come_whole_or_are_refused) {
    worker_engine engine(peers(1, 1));
    const trouble its(engine);
    model_config how;
    how.device = std::string(5'000'000, 'x');  // which such a model does not look at
    const auto one = engine.load({"a", 1, its.file()}, how), other = engine.load({"a", 1, its.file()}, how);
    EXPECT_EQ(one->run({testing::row_with(1)}).size(), 1U);
    EXPECT_EQ(other->run({testing::row_with(1)}).size(), 1U);
    how.device = std::string(std::size_t{17} << 20, 'x');
    try {
        engine.load({"a", 1, its.file()}, how);
        FAIL();
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::unsupported);
        EXPECT_THAT(failure.what(), HasSubstr("take more than 16 MiB"));
    }
    EXPECT_TRUE(its.answers(1));
    EXPECT_EQ(engine.counts().restarts, 0U);
}

TEST(worker_faults, a_worker_that_stops_while_it_gets_a_message_is_killed_and_replaced) {
    worker_engine_options options = immortal(1, 0);
    options.load_timeout = 8s;
    worker_engine engine(options);
    const trouble its(engine);
    ::kill(engine.process_ids().at(0), SIGSTOP);
    try {
        engine.load({"a", 1, its.file()}, {.device = std::string(5'000'000, 'x')});
        FAIL();
    } catch (const file_error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("it has not answered for 8 s"));
    }
    EXPECT_TRUE(its.answers(1));
    EXPECT_EQ(engine.counts().restarts, 1U);
}

TEST(worker_faults, a_process_that_the_system_does_not_end_holds_up_neither_its_successor_nor_the_engine) {
    kept_lines lines;
    worker_engine_options options = immortal(1, 0);
    options.log = lines.sink();
    auto engine = std::make_unique<worker_engine>(options);
    const trouble its(*engine);
    try {
        its.run(testing::held_number);
    } catch (const error& why) {
        GTEST_SKIP() << why.what();
    }
    const int held = engine->process_ids().at(0);
    ::kill(held, SIGKILL);
    wait_until([&] { return engine->counts().restarts == 1 && is_up(*engine, 1); });
    EXPECT_TRUE(its.answers(1));
    wait_until([&] { return !lines.of("worker_ended").empty(); });
    EXPECT_THAT(lines.of("worker_ended"), Contains(HasSubstr("it does not end")));
    engine.reset();
    EXPECT_EQ(::kill(held, 0), 0);  // it is still there
}

TEST(worker_faults, a_worker_does_not_answer_from_other_contents_than_the_one_before_it) {
    kept_lines lines;
    worker_engine_options options = immortal(1, 0);
    options.log = lines.sink();
    worker_engine engine(options);
    const trouble its(engine), other(engine);
    testing::write_trouble(its.file(), "fine, but longer");
    ::kill(engine.process_ids().at(0), SIGKILL);
    wait_until([&] { return its.model().is_lost(); });
    EXPECT_THROW(its.run(1), error);
    EXPECT_TRUE(other.answers(1));
    wait_until([&] { return !lines.of("worker_load_failed").empty(); });
    EXPECT_THAT(lines.of("worker_load_failed"), Contains(HasSubstr("the file is not the one that was loaded")));
}

TEST(worker_faults, replacements_leave_no_descriptor_open) {
    worker_engine engine(immortal(1, 0));
    const trouble its(engine);
    const std::size_t before = descriptors();
    for (std::uint64_t i = 0; i < 20; ++i) {
        ::kill(engine.process_ids().at(0), SIGKILL);
        wait_until([&] { return engine.counts().restarts == i + 1 && is_up(engine, 1); });
    }
    EXPECT_TRUE(its.answers(1));
    wait_until([&] { return descriptors() == before; });  // the last one may take a moment to end
}

TEST(worker_faults, a_worker_has_no_other_descriptors_of_this_process) {
    const io::testing::temporary_directory folder_of_file;
    const std::ofstream open(folder_of_file / "open");  // without close-on-exec
    worker_engine engine(peers(1, 0));
    const trouble its(engine);
    EXPECT_TRUE(its.answers(1));
    const fs::path folder = "/proc/" + std::to_string(engine.process_ids().at(0)) + "/fd";
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(folder)) {
        std::error_code gone;
        names.push_back(fs::read_symlink(each.path(), gone).string());
    }
    EXPECT_GE(names.size(), 5U);  // the standard ones, and the two that it is given
    EXPECT_THAT(names, ::testing::Not(Contains(HasSubstr("/open")))) << ::testing::PrintToString(names);
}

TEST(worker_faults, the_end_of_the_engine_ends_its_workers) {
    std::vector<int> ids;
    {
        worker_engine engine(peers(2, 1));
        ids = engine.process_ids();
    }
    ASSERT_EQ(ids.size(), 3U);
    for (const int id : ids) EXPECT_NE(::kill(id, 0), 0);
}

}  // namespace
}  // namespace sluice::serve::worker_fault_tests
