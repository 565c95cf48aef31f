// SPDX-License-Identifier: Apache-2.0
// Phases of one command, whose parts are shared by workers with nothing else to do.
#include "runtime/parallel_phases.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <latch>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cpu/long_command.hpp"
#include "sluice/runtime/device_future.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::parallel_phases_tests {
namespace {

// Each phase has as many parts as the list says.
class listed_phases final : public detail::phased_work {
public:
    listed_phases(std::vector<std::size_t> parts, std::function<void(std::size_t, std::size_t)> run)
        : parts_(std::move(parts)), run_(std::move(run)) {}

    std::size_t parts(std::size_t phase) const noexcept override { return parts_[phase]; }
    std::size_t after(std::size_t phase) const noexcept override { return phase + 1; }
    void run(std::size_t phase, std::size_t part) const noexcept override { run_(phase, part); }
    void run_all(std::size_t phase) const noexcept override {
        ++whole_phases;
        phased_work::run_all(phase);
    }
    void operator()(detail::team_wakes wakes = detail::team_wakes::always) const {
        detail::run_phases(*this, 0, parts_.size(), wakes);
    }

    mutable std::atomic<std::size_t> whole_phases{0};  // which one thread carried out as a whole

private:
    const std::vector<std::size_t> parts_;
    const std::function<void(std::size_t, std::size_t)> run_;
};

class parallel_phases : public testing::Test {
protected:
    runtime owner{{.cpu_workers = 3, .cuda = false}};
    device& on = owner.find("cpu:0");
    single_stream policy{on};
};

}  // namespace

TEST_F(parallel_phases, are_carried_out_side_by_side) {
    std::vector<std::thread::id> threads(3);
    std::latch all_three(3);
    const listed_phases work({1, 3, 1}, [&](std::size_t phase, std::size_t part) {
        if (phase != 1) return;
        threads[part] = std::this_thread::get_id();
        all_three.arrive_and_wait();
    });
    sync(host_call([&] { work(); }), policy);
    EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 3u);
}

// Numbers that are not atomic: a sanitizer would see a part that began too early.
TEST_F(parallel_phases, see_what_those_before_wrote) {
    const std::vector<std::size_t> parts{1, 7, 2, 32, 1, 1, 5, 100, 3};
    for (int repeat = 0; repeat < 300; ++repeat) {
        std::vector<std::vector<std::size_t>> made;
        for (const std::size_t each : parts) made.emplace_back(each, 0);
        const listed_phases work(parts, [&](std::size_t phase, std::size_t part) {
            const std::size_t before =
                phase == 0 ? 1 : std::accumulate(made[phase - 1].begin(), made[phase - 1].end(), std::size_t{0});
            made[phase][part] += before % 1000 + part;
        });
        sync(host_call([&] { work(); }), policy);
        std::size_t before = 1;
        for (std::size_t phase = 0; phase < parts.size(); ++phase) {
            std::size_t sum = 0;
            for (std::size_t part = 0; part < parts[phase]; ++part) {
                ASSERT_EQ(made[phase][part], before % 1000 + part) << "phase " << phase << ", run " << repeat;
                sum += made[phase][part];
            }
            before = sum;
        }
    }
}

// A stream that becomes ready waits for one part of a helper at most.
TEST_F(parallel_phases, leave_a_worker_to_a_stream_that_becomes_ready) {
    std::atomic<bool> stream_has_run = false;
    std::atomic<std::size_t> after_it = 0;
    std::latch all_three(3), is_queued(1);
    const std::vector<std::size_t> parts{3, 1, 500, 500};
    const listed_phases work(parts, [&](std::size_t phase, std::size_t) {
        if (phase == 0) {
            all_three.arrive_and_wait();
            is_queued.wait();
            return;
        }
        // Without a helper that leaves, the stream would run after the last part.
        std::this_thread::sleep_for(std::chrono::milliseconds(stream_has_run ? 0 : 1));
        if (stream_has_run) ++after_it;
    });
    auto shared = spawn(host_call([&] { work(); }), policy);
    all_three.wait();
    const stream_lease other(on);
    other->host_call({"other"}, {[&] { stream_has_run = true; }});
    is_queued.count_down();
    shared.wait();
    EXPECT_TRUE(stream_has_run);
    EXPECT_GT(after_it, 0u);
}

// All three workers compute until the test has seen how the short phases of another thread are carried out.
TEST_F(parallel_phases, that_are_short_are_not_divided_where_all_cores_compute) {
    std::latch have_begun(3), may_end(1);
    const listed_phases all_cores({3}, [&](std::size_t, std::size_t) {
        have_begun.arrive_and_wait();
        may_end.wait();
    });
    auto computing = spawn(host_call([&] { all_cores(); }), policy);
    have_begun.wait();
    std::vector<std::pair<std::size_t, std::size_t>> order;
    const listed_phases short_one({2, 1, 2},
                                  [&](std::size_t phase, std::size_t part) { order.emplace_back(phase, part); });
    single_stream other(on);
    sync(host_call([&] { short_one(detail::team_wakes::now_and_then); }), other);
    EXPECT_EQ(short_one.whole_phases, 3u);
    may_end.count_down();
    computing.wait();
    EXPECT_EQ(all_cores.whole_phases, 0u);
    const std::vector<std::pair<std::size_t, std::size_t>> expected{{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}};
    EXPECT_EQ(order, expected);
}

TEST(parallel_phases_of_a_long_command, have_help_as_soon_as_another_command_has_ended) {
    test_support::expect_help_for_a_long_command([](std::size_t parts, const auto& body) {
        listed_phases({parts}, [&](std::size_t, std::size_t part) { body(part); })();
    });
}

TEST_F(parallel_phases, of_several_commands_are_not_mixed) {
    round_robin pool(on, 4);
    std::vector<std::atomic<std::size_t>> sums(100);
    std::vector<device_future<std::tuple<>>> all;
    for (auto& sum : sums) {
        all.push_back(spawn(host_call([&sum] {
                                listed_phases({4, 1, 20, 3}, [&sum](std::size_t phase, std::size_t part) {
                                    sum += phase * 100 + part;
                                })();
                            }),
                            pool));
    }
    for (auto& each : all) each.wait();
    const std::size_t expected = 6 + 100 + (20 * 200 + 190) + (3 * 300 + 3);
    for (const auto& each : sums) EXPECT_EQ(each, expected);
}

TEST(parallel_phases_elsewhere, are_carried_out_in_order) {
    std::vector<std::pair<std::size_t, std::size_t>> order;
    const listed_phases work({2, 1, 2}, [&](std::size_t phase, std::size_t part) { order.emplace_back(phase, part); });
    work();
    const std::vector<std::pair<std::size_t, std::size_t>> expected{{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}};
    EXPECT_EQ(order, expected);
    EXPECT_EQ(work.whole_phases, 3u);
    listed_phases({}, [](std::size_t, std::size_t) { FAIL(); })();
}

}  // namespace sluice::parallel_phases_tests
