// SPDX-License-Identifier: Apache-2.0
// A model of command_queue::submit for several threads that write the same storage. It uses the real history and the
// real set of locks, and runs under thousands of interleavings.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "sluice/runtime/detail/access_history.hpp"
#include "sluice/runtime/detail/access_lock.hpp"
#include "sluice/sim/atomic.hpp"
#include "sluice/sim/interleaving.hpp"

namespace sluice::sim::several_writers_tests {
namespace {

class model_lock {
public:
    void lock() {
        scheduling_point();
        wait_until([this] { return !is_locked_; });
        is_locked_ = true;
    }
    void unlock() noexcept { is_locked_ = false; }

private:
    bool is_locked_ = false;
};

struct model_storage {
    sluice::detail::access_history history;
    model_lock lock;
};

struct model_queue {
    atomic<ticket> issued{0};
    // Histories only compare this address.
    command_queue* address() noexcept { return reinterpret_cast<command_queue*>(this); }
};

// A command that the device runs after the points in `after` and after the earlier commands of its queue.
struct model_command {
    stream_point self;
    std::vector<stream_point> after;
};

// The part of the protocol that is left out.
enum class fault { none, no_locks, locks_as_named };

struct model {
    explicit model(fault left_out) : missing(left_out) {}

    const fault missing;
    std::array<model_queue, 3> queues;
    std::array<model_storage, 2> memory;
    std::vector<model_command> enqueued;

    model_queue& of(const stream_point& point) {
        return *std::ranges::find(queues, point.queue, [](model_queue& each) { return each.address(); });
    }

    // Writes all of `named`, in that order. A deadlock abandons the stack, so `named` must not own memory.
    void submit(model_queue& on, std::span<model_storage* const> named) {
        sluice::detail::lock_set<model_lock> together;
        if (missing == fault::none) {
            for (model_storage* const each : named) together.add(each->lock);
            together.lock();
        }
        if (missing == fault::locks_as_named) {
            for (model_storage* const each : named) each->lock.lock();
        }
        const stream_point self{on.address(), on.issued.load() + 1};
        std::vector<stream_point> conflicts;
        for (model_storage* const each : named) {
            scheduling_point();
            each->history.for_each_conflict(*self.queue, access_mode::write,
                                            [&](const stream_point& earlier) { conflicts.push_back(earlier); });
            each->history.add(self, access_mode::write);
        }
        for (stream_point& each : conflicts) each.upto = std::min(each.upto, of(each).issued.load());
        enqueued.push_back({self, conflicts});
        on.issued.store(self.upto);
        if (missing == fault::locks_as_named) {
            for (model_storage* const each : named) each->lock.unlock();
        }
    }

    // Of any two commands, one is ordered after the other.
    void check_order() const {
        const std::size_t count = enqueued.size();
        std::vector<std::vector<bool>> after(count, std::vector<bool>(count));
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t j = 0; j < count; ++j) {
                const stream_point earlier = enqueued[j].self;
                const auto covers = [&](const stream_point& each) {
                    return each.queue == earlier.queue && each.upto >= earlier.upto;
                };
                const stream_point self = enqueued[i].self;
                after[i][j] = (self.queue == earlier.queue && self.upto > earlier.upto) ||
                              std::ranges::any_of(enqueued[i].after, covers);
            }
        }
        for (std::size_t k = 0; k < count; ++k) {
            for (std::size_t i = 0; i < count; ++i) {
                for (std::size_t j = 0; j < count; ++j) after[i][j] = after[i][j] || (after[i][k] && after[k][j]);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            check(!after[i][i], "a command runs after itself");
            for (std::size_t j = 0; j < i; ++j) check(after[i][j] || after[j][i], "two writers run concurrently");
        }
    }
};

scenario writers_of_one(fault missing) {
    const auto m = std::make_shared<model>(missing);
    scenario made;
    for (model_queue& each : m->queues) {
        made.threads.emplace_back([m, &each] {
            const std::array named{&m->memory[0]};
            for (int i = 0; i < 2; ++i) m->submit(each, named);
        });
    }
    made.finally = [m] { m->check_order(); };
    return made;
}

scenario writers_of_two(fault missing) {
    const auto m = std::make_shared<model>(missing);
    const auto write = [m](std::size_t queue, std::size_t first, std::size_t second) {
        const std::array named{&m->memory[first], &m->memory[second]};
        m->submit(m->queues[queue], named);
    };
    return {.threads = {[=] { write(0, 0, 1), write(0, 1, 0); }, [=] { write(1, 1, 0), write(1, 0, 1); },
                        [=] { write(2, 1, 0); }},
            .finally = [m] { m->check_order(); }};
}

TEST(several_writers, of_one_storage_run_one_at_a_time) {
    const interleave_result result = interleave([] { return writers_of_one(fault::none); });
    EXPECT_FALSE(result.failure) << result.failure->message << ": " << result.failure->order;
}

TEST(several_writers, of_two_storages_run_one_at_a_time_whatever_the_order_of_their_names) {
    const interleave_result result = interleave([] { return writers_of_two(fault::none); });
    EXPECT_FALSE(result.failure) << result.failure->message << ": " << result.failure->order;
}

TEST(several_writers, run_concurrently_in_some_schedule_without_the_locks) {
    const interleave_result result = interleave([] { return writers_of_one(fault::no_locks); });
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.failure->message, "in the end: two writers run concurrently");
}

TEST(several_writers, deadlock_when_they_lock_in_the_order_of_names) {
    const interleave_result result = interleave([] { return writers_of_two(fault::locks_as_named); });
    EXPECT_TRUE(result.failure);
}

}  // namespace
}  // namespace sluice::sim::several_writers_tests
