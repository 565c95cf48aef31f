// SPDX-License-Identifier: Apache-2.0
// Policies select streams. Their choice changes when commands run, never the results.
#include <array>
#include <set>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::policy_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 200;

class policies : public conformance_test {
protected:
    auto work(unsigned start) const {
        return full<unsigned>({size}, start)
            .and_then([rounds = slow()](auto x) { return step(std::move(x), 4, rounds); })
            .and_then(download);
    }

    // Records the stream to which an operation or its branch was submitted.
    static auto note(std::vector<command_queue*>& seen) {
        return with_context([&seen](execution_context& context) { seen.push_back(&context.stream().queue()); },
                            branch_threshold);
    }
};
INSTANTIATE_TEST_SUITE_P(, policies, testing::ValuesIn(enrolled_backends()), backend_name);

// A policy as a user may write it: all work of one thread is submitted to one stream.
class by_thread final : public scheduling_policy {
public:
    by_thread(device& on, std::size_t streams) {
        for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(on);
    }
    stream next() override {
        return *streams_[std::hash<std::thread::id>()(std::this_thread::get_id()) % streams_.size()];
    }

private:
    std::vector<stream_lease> streams_;
};

}  // namespace

TEST_P(policies, least_loaded_picks_an_idle_stream) {
    NEEDS_A_GATE();
    least_loaded pool(on, 3);
    EXPECT_EQ(pool.size(), 3u);
    stream a = pool.next();
    gate first(a);
    stream b = pool.next();
    EXPECT_NE(a, b);
    gate second(b);
    stream c = pool.next();
    EXPECT_NE(c, a);
    EXPECT_NE(c, b);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(pool.next(), c);
}

TEST_P(policies, least_loaded_picks_the_shortest_queue_when_all_are_busy) {
    NEEDS_A_GATE();
    least_loaded pool(on, 2);
    stream a = pool.next();
    gate first(a);
    stream b = pool.next();
    gate second(b);
    a.host_call({"more"}, {[] {}});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.next(), b);
    b.host_call({"more"}, {[] {}});
    b.host_call({"more"}, {[] {}});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.next(), a);
}

TEST_P(policies, least_loaded_alternates_among_equally_loaded_streams) {
    least_loaded pool(on, 3);
    on.synchronize();
    std::set<command_queue*> seen;
    for (int i = 0; i < 3; ++i) seen.insert(&pool.next().queue());
    EXPECT_EQ(seen.size(), 3u);
}

TEST_P(policies, results_do_not_depend_on_the_load) {
    least_loaded pool(on, 3);
    std::vector<device_future<pending<numbers>>> all;
    for (unsigned i = 0; i < 60; ++i) all.push_back(spawn(work(i), pool));
    for (unsigned i = 0; i < 60; ++i) EXPECT_EQ(std::move(all[i]).get(), numbers(size, 3 * i + 4));
}

TEST_P(policies, least_loaded_may_be_used_by_many_threads) {
    least_loaded pool(on, 3);
    std::vector<std::jthread> threads;
    for (unsigned id = 0; id < 4; ++id) {
        threads.emplace_back([&, id] {
            for (unsigned i = 0; i < 50; ++i) ASSERT_EQ(sync(work(id + i), pool), numbers(size, 3 * (id + i) + 4));
        });
    }
}

TEST_P(policies, of_ready_streams_the_most_urgent_runs_first) {
    if (on.kind() != device_kind::cpu) GTEST_SKIP() << "on a GPU, only between blocks of kernels";
    // One worker, so that the device has to choose.
    runtime single({.cpu_devices = 1, .cpu_workers = 1, .cuda = false});
    device& cpu = single.find("cpu:0");
    priority_pool pools(cpu, {1, 2, 3});
    EXPECT_EQ(pools.levels(), 3u);
    single_stream other(cpu);
    std::vector<int> order;
    const auto note_level = [&](int level) {
        pools.level(static_cast<std::size_t>(level)).next().host_call({"note"}, {[&order, level] {
                                                                          order.push_back(level);
                                                                      }});
    };
    signal runs, may_end;
    other.next().host_call({"hold"}, {[&runs, go_on = may_end.latch()] {
                               runs.give();
                               go_on->wait();
                           }});
    runs.wait();  // the worker is busy, and everything else is ready when it is free again
    for (const int level : {2, 1, 2, 0, 1, 0, 2}) note_level(level);
    may_end.give();
    cpu.synchronize();
    EXPECT_EQ(order, (std::vector<int>{0, 0, 1, 1, 2, 2, 2}));
}

TEST_P(policies, priority_levels_change_no_result) {
    priority_pool pools(on, {1, 2});
    std::vector<device_future<pending<numbers>>> all;
    for (unsigned i = 0; i < 40; ++i) all.push_back(spawn(work(i), pools.level(i % 2)));
    for (unsigned i = 0; i < 40; ++i) EXPECT_EQ(std::move(all[i]).get(), numbers(size, 3 * i + 4));
    EXPECT_NE(pools.level(0).next(), pools.level(1).next());
    EXPECT_THROW(pools.level(2), std::out_of_range);
}

TEST_P(policies, round_robin_devices_alternates_between_devices) {
    const std::array both{&on, &other_device()};
    round_robin_devices pool(both, 2);
    std::vector<command_queue*> seen;
    for (int i = 0; i < 8; ++i) seen.push_back(&pool.next().queue());
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(&seen[i]->owner(), both[i % 2]);
    EXPECT_NE(seen[0], seen[2]);
    EXPECT_EQ(seen[0], seen[4]);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(&pool.on(on).next().owner(), &on);
}

TEST_P(policies, branches_stay_on_their_device_and_do_not_advance_the_rotation) {
    const std::array both{&on, &other_device()};
    round_robin_devices pool(both, 2);
    std::vector<device*> homes;
    for (int i = 0; i < 6; ++i) {
        std::vector<command_queue*> seen;
        sluice::sync(zip(note(seen), note(seen)), pool);
        ASSERT_EQ(seen.size(), 2u);
        EXPECT_EQ(&seen[0]->owner(), &seen[1]->owner());
        EXPECT_NE(seen[0], seen[1]);  // different streams
        homes.push_back(&seen[0]->owner());
    }
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(homes[i], both[i % 2]) << i;
}

TEST_P(policies, a_policy_without_streams_levels_or_devices_is_refused) {
    const std::string name = GetParam().device;
    expect_refused(errc::invalid_argument, {name, "at least one"}, [&] { least_loaded(on, 0); });
    expect_refused(errc::invalid_argument, {name, "level"}, [&] { priority_pool(on, {}); });
    expect_refused(errc::invalid_argument, {name, "at least one"}, [&] { priority_pool(on, {1, 0}); });
    expect_refused(errc::invalid_argument, {"device"}, [&] { round_robin_devices({}, 1); });
    const std::array both{&on, &other_device()};
    expect_refused(errc::invalid_argument, {"at least one"}, [&] { round_robin_devices(both, 0); });
    const std::array one{&on};
    round_robin_devices pool(one, 1);
    expect_refused(errc::invalid_argument, {GetParam().other_device}, [&] { pool.on(other_device()); });
}

TEST_P(policies, a_user_may_write_a_policy_in_a_few_lines) {
    by_thread pool(on, 2);
    EXPECT_EQ(pool.next(), pool.next());
    EXPECT_EQ(sync(zip(work(1), work(2)), pool), (std::tuple{numbers(size, 7), numbers(size, 10)}));
    std::vector<std::jthread> threads;
    for (unsigned id = 0; id < 3; ++id) {
        threads.emplace_back([&, id] { EXPECT_EQ(spawn(work(id), pool).get(), numbers(size, 3 * id + 4)); });
    }
}

TEST_P(policies, a_policy_may_be_destroyed_while_its_streams_work) {
    NEEDS_A_GATE();
    auto pools = std::make_unique<priority_pool>(on, std::initializer_list<std::size_t>{1, 1});
    auto loaded = std::make_unique<least_loaded>(on, 2);
    sync(work(1), *loaded);
    gate held(pools->level(0).next());
    auto first = spawn(work(1), pools->level(0));
    auto second = spawn(work(2), *loaded);
    pools.reset();
    loaded.reset();
    held.open();
    EXPECT_EQ(std::move(first).get(), numbers(size, 7));
    EXPECT_EQ(std::move(second).get(), numbers(size, 10));
}

}  // namespace sluice::conformance::policy_tests
