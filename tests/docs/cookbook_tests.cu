// SPDX-License-Identifier: Apache-2.0
// The code in docs/cookbook.md. Runs on the default device: a GPU where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stop_token>
#include <thread>

#include "sluice/sluice.hpp"

namespace sluice::docs::cookbook_tests {
namespace {

using namespace std::chrono_literals;

const std::filesystem::path models = SLUICE_SOURCE_DIR "/models";
const std::filesystem::path data = SLUICE_SOURCE_DIR "/data";

class cookbook : public testing::Test {
protected:
    runtime machine;
    round_robin pool{machine.default_device(), 4};
};

struct square {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element *= *element;
    }
};

auto squared(std::vector<float> x) {
    return upload(std::move(x))
        .and_then([](auto y) { return launch(square{}, each_of(y), std::move(y)); })
        .and_then(download);
}

struct blend {  // x = (1 - t) * x + t * y, with y only read
    SLUICE_KERNEL void operator()(index_1d at, float t, view<const float> y, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element = (1 - t) * *element + t * y[at.value()];
    }
};

task<float> sum_of_squares(std::vector<float> x, scheduling_policy& streams) {
    auto future = spawn(squared(std::move(x)), streams);
    const std::vector<float> y = co_await std::move(future);
    co_return std::accumulate(y.begin(), y.end(), 0.f);
}

task<float> of_both(scheduling_policy& streams) {
    auto both = when_all(sum_of_squares({1, 2}, streams), sum_of_squares({3, 4}, streams));
    auto [a, b] = co_await std::move(both);
    co_return a + b;
}

}  // namespace

TEST_F(cookbook, a_kernel_over_a_vector) {
    const std::vector<float> y = sync(squared({1, 2, 3}), pool);
    EXPECT_EQ(y, (std::vector<float>{1, 4, 9}));
}

TEST_F(cookbook, a_kernel_that_reads_another_tensor) {
    const std::vector<float> from{0, 0}, to{10, 20};
    auto halfway = zip(upload(to), upload(from)).and_then([](tensor<float> y, tensor<float> x) {
        auto range = each_of(x);
        return launch(blend{}, range, 0.5f, std::move(y), std::move(x));
    });
    const std::vector<float> x = sync(std::move(halfway).and_then(download), pool);
    EXPECT_EQ(x, (std::vector<float>{5, 10}));
}

TEST_F(cookbook, many_requests_at_the_same_time) {
    std::vector<device_future<pending<std::vector<float>>>> running;
    for (int i = 0; i < 8; ++i) running.push_back(spawn(squared({float(i)}), pool));  // on four streams
    float sum = 0;
    for (auto& each : running) sum += std::move(each).get()[0];
    EXPECT_EQ(sum, 140);
}

TEST_F(cookbook, weights_stay_on_the_device) {
    const shared_tensor<float> weight(sync(randn({10, 64}, 1), pool));  // [outputs, inputs], as in PyTorch
    const shared_tensor<float> bias(sync(zeros<float>({10}), pool));
    const auto layer = [=](std::vector<float> rows) {
        const std::size_t count = rows.size() / 64;
        return upload(std::move(rows), {count, 64}).and_then(linear(weight, bias, activation::relu)).and_then(download);
    };
    const std::vector<float> first = sync(layer(std::vector<float>(2 * 64, 1)), pool);
    const std::vector<float> second = sync(layer(std::vector<float>(5 * 64, 1)), pool);
    ASSERT_EQ(first.size(), 20u);
    ASSERT_EQ(second.size(), 50u);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(first[i], second[i], 1e-4);
}

TEST_F(cookbook, launched_again_and_again_as_a_graph) {
    const shared_tensor<float> w(sync(eye<float>(8), pool));
    const auto forward = [=](tensor<float> x) { return gemm(std::move(x), w).and_then(relu).and_then(download); };
    const auto fast = compile(pool, forward, host_input<float>({2, 8}));
    const std::vector<float> x(16, 3);
    for (int round = 0; round < 3; ++round) {
        const std::vector<float> y = sync(fast(x), pool);
        EXPECT_EQ(y, x);
    }
}

TEST_F(cookbook, the_best_class_of_each_row) {
    const std::vector<float> scores{1, 5, 2, 7, 0, 3};
    auto best = upload(scores, {2, 3}).and_then(argmax()).and_then(download);
    const std::vector<std::int64_t> classes = sync(std::move(best), pool);
    EXPECT_EQ(classes, (std::vector<std::int64_t>{1, 0}));
}

TEST_F(cookbook, one_value_used_twice) {
    const auto noise = share(uniform({1000}, 7));  // runs once, however often it is used
    auto range = zip(noise, noise).and_then([](shared_tensor<float> a, shared_tensor<float> b) {
        return zip(sluice::min(a, reduce_over::all), sluice::max(b, reduce_over::all));
    });
    auto [low, high] = sync(std::move(range).and_then([](tensor<float> a, tensor<float> b) {
        return zip(download(std::move(a)), download(std::move(b)));
    }),
                            pool);
    EXPECT_GE(low[0], 0);
    EXPECT_LT(high[0], 1);
}

TEST_F(cookbook, the_host_works_on_each_result) {
    std::atomic<float> total = 0;
    auto work = squared({1, 2, 3}).and_then([&](auto landed) {
        return host_call([&](const std::vector<float>& y) { total = std::accumulate(y.begin(), y.end(), 0.f); },
                         std::move(landed));
    });
    sync(std::move(work), pool);
    EXPECT_EQ(total, 14);
}

TEST_F(cookbook, a_coroutine_waits_for_two_results) { EXPECT_EQ(sync_wait(of_both(pool)), 30); }

TEST_F(cookbook, an_answer_in_time_or_none) {
    auto limited = timeout(squared({1, 2, 3}), 1h).or_else([](std::exception_ptr) {
        return squared({});  // the answer when it is too late, or has failed
    });
    const std::vector<float> y = sync(std::move(limited), pool);
    EXPECT_EQ(y.size(), 3u);
}

TEST_F(cookbook, work_that_is_given_up_on_request) {
    std::stop_source user;
    user.request_stop();
    auto running = spawn(stop_when(squared({1, 2, 3}), user.get_token()), pool);
    std::error_code why;
    try {
        std::move(running).get();
    } catch (const error& stopped) {
        why = stopped.code();  // errc::canceled
    }
    EXPECT_EQ(why, errc::canceled);
}

TEST_F(cookbook, a_failure_is_tried_again) {
    int calls = 0;
    const auto flaky = [&] {
        return host_call([&]() -> int {
            if (++calls < 3) throw std::runtime_error("the network is down");
            return 42;
        });
    };
    const int answer = sync(retry(5, flaky), pool);
    EXPECT_EQ(answer, 42);
    EXPECT_EQ(calls, 3);
}

TEST_F(cookbook, memory_that_exists_is_used_again) {
    tensor<float> x = sync(zeros<float>({4}), pool);
    host_buffer<float> room(pool.next(), 4);  // pinned memory, for results
    float last = 0;
    for (float round = 1; round <= 3; ++round) {
        x = sync(upload_to(std::move(x), std::vector<float>(4, round)), pool);  // over its old contents
        auto [same, result] = sync(copy(std::move(x)), pool);
        x = std::move(same);
        room = sync(download_to(std::move(result), std::move(room)), pool);  // into the same pinned memory
        last = room.read()[3];
    }
    EXPECT_EQ(last, 3);
}

TEST_F(cookbook, a_part_of_a_matrix) {
    const region corner{.at = {0, 0}, .shape = {2, 2}};
    tensor<float> x =
        sync(arange<float>(0, 16).transform([](auto all) { return std::move(all).reshape({4, 4}); }), pool);
    auto [whole_matrix, four] = sync(download_region(std::move(x), corner), pool);
    EXPECT_EQ(four, (std::vector<float>{0, 1, 4, 5}));
    EXPECT_EQ(whole_matrix.size(), 16u);
}

TEST(cookbook_devices, a_batch_is_split_among_devices) {
    runtime machine({.cpu_devices = 2, .cuda = false});
    const device_set all = device_set::of(machine);
    round_robin_devices pool(all, 2);
    const std::vector<float> rows(6 * 4, 2);
    auto parts = sync(shard(all, rows, {6, 4}), pool);  // three rows on each
    auto work = on_each(all, [&](std::size_t i) { return scale(std::move(parts[i]), 10); });
    const std::vector<float> y = sync(std::move(work).and_then(gather).and_then(download), pool);
    EXPECT_EQ(y, std::vector<float>(24, 20));
}

TEST(cookbook_trace, a_timeline_is_drawn) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "cookbook_run.svg";
    trace_recorder recorder;
    runtime machine({.trace = &recorder});
    round_robin pool(machine.default_device(), 2);
    sync(named("squares", squared({1, 2, 3})), pool);
    save_timeline(recorder.take(), file);
    EXPECT_GT(std::filesystem::file_size(file), 1000u);
    std::filesystem::remove(file);
}

TEST(cookbook_simulator, a_pipeline_is_checked_for_races) {
    sim::explore([] { return squared({1, 2, 3}); }, {.schedules = 500}).require_clean();
}

TEST(cookbook_limits, a_program_sees_and_limits_its_memory) {
    runtime machine({.cpu_memory_bytes = 64 << 20, .cuda = false});
    single_stream one(machine.default_device());
    const std::size_t free_bytes = machine.default_device().memory().free_bytes;
    std::string why;
    try {
        sync(zeros<float>({100 << 20}), one);
    } catch (const out_of_memory& shortage) {  // nothing is lost: smaller work may continue
        why = shortage.what();
    }
    EXPECT_LE(free_bytes, std::size_t(64) << 20);
    EXPECT_NE(why, "");
}

TEST(cookbook_log, rare_events_go_to_the_programs_logger) {
    std::vector<std::string> lines;
    {
        runtime machine({.cuda = false, .log = [&](const log_entry& entry) {
                             lines.push_back(std::string(to_string(entry.level)) + " " + std::string(entry.message));
                         }});
    }
    EXPECT_FALSE(lines.empty());
}

TEST_F(cookbook, rows_of_a_file_through_a_network) {
    const std::filesystem::path target = std::filesystem::path(testing::TempDir()) / "cookbook_logits.npy";
    const nn::network digits = sync(nn::make_network(nn::load_safetensors(models / "digits.safetensors")), pool);
    const io::npy_file inputs(data / "digits_inputs.npy");
    const std::size_t count = inputs.view().rows();

    nn::prepared batch = digits.prepare({{"input", {50, 64}}});
    io::npy_writer output(target, {count, 10});
    for (std::size_t first = 0; first + 50 <= count; first += 50) {
        inputs.view().read_rows(first, batch.input<float>("input"));
        batch.run();
        output.write_rows(first, batch.output<float>("output"));
    }
    output.commit();  // the file appears, whole

    ASSERT_EQ(count % 50, 0u);
    const io::npy_file written(target), reference(data / "digits_logits.npy");
    std::vector<float> logits(count * 10), expected(count * 10);
    written.view().read_rows(0, logits);
    reference.view().read_rows(0, expected);
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-4);
    std::filesystem::remove(target);
}

}  // namespace sluice::docs::cookbook_tests
