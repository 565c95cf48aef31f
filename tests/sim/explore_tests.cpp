// SPDX-License-Identifier: Apache-2.0
// Correct pipelines are clean in every order of their commands.
#include <gmock/gmock.h>

#include "sim/small_pipelines.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"
#include "sluice/kernels/gemm.hpp"

namespace sluice::sim::explore_tests {
namespace {

any_operation<tensor<float>> chain(int length) {
    any_operation<tensor<float>> made = zeros<float>(flat);
    for (int i = 0; i < length; ++i)
        made = std::move(made).and_then([i](auto x) { return step(std::move(x), float(i)); });
    return made;
}

}  // namespace

TEST(explore, four_batches_of_async_mlp_are_clean) {
    simulator machine;
    auto [first, second] = sync(zip(upload(ramp(dim * dim), {dim, dim}), upload(ramp(dim), {dim})), machine.pool());
    const shared_tensor<float> w0(std::move(first)), w1(std::move(second));
    const auto made =
        explore(machine, [&](scheduling_policy& pool) { return run_batches(pool, w0, w1, 4); }, {.schedules = 20'000});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(made.schedules, 20'000u);
    EXPECT_EQ(made.commands, 20'001u * 4 * 7);
}

TEST(explore, runs_an_operation_and_waits_for_it) {
    int calls = 0;
    expect_clean([&] {
        ++calls;
        return arm(1).and_then(download);
    });
    EXPECT_EQ(calls, 2'001);
}

TEST(explore, branches_of_a_zip_meet_in_order) {
    expect_clean([] {
        return zip(arm(1), arm(2), arm(3))
            .and_then([](auto x, auto y, auto z) {
                return zip(launch(add_all{}, each_of(y), std::move(x), std::move(y)), value(std::move(z)));
            })
            .and_then([](auto y, auto z) { return launch(add_all{}, each_of(z), std::move(y), std::move(z)); })
            .and_then(download);
    });
}

TEST(explore, all_branches_are_waited_for) {
    const auto branches = [] {
        return zip(arm(1).and_then(download), arm(2).and_then(download), arm(3).and_then(download),
                   arm(4).and_then(download));
    };
    expect_clean(branches);
    expect_clean([&](scheduling_policy& pool) -> task<std::tuple<numbers, numbers, numbers, numbers>> {
        auto all = spawn(branches(), pool);
        co_return co_await std::move(all);
    });
}

TEST(explore, a_shared_value_is_ready_for_every_reader) {
    expect_clean([](scheduling_policy& pool) {
        const auto weights = share(arm(1));
        const auto reader = [&](float start) {
            return zip(weights, arm(start))
                .and_then([](auto w, auto x) { return launch(add_all{}, each_of(x), std::move(w), std::move(x)); })
                .and_then(download);
        };
        auto first = spawn(reader(1), pool);
        auto second = spawn(zip(reader(2), reader(3)), pool);
        return std::pair(std::move(second).get(), std::move(first).get());
    });
}

TEST(explore, chains_of_any_length_run) {
    expect_clean([](scheduling_policy& pool) {
        std::vector<device_future<pending<numbers>>> all;
        for (int length = 0; length < 4; ++length) all.push_back(spawn(chain(length).and_then(download), pool));
        std::vector<numbers> results;
        for (auto& each : all) results.push_back(std::move(each).get());
        return results;
    });
}

TEST(explore, host_calls_run_in_stream_order) {
    expect_clean([](scheduling_policy& pool) {
        std::vector<int> seen;
        sync(zip(call_naming([&] { seen.push_back(1); }), arm(1), call_naming([&] { seen.push_back(2); })), pool);
        EXPECT_THAT(seen, testing::ElementsAre(1, 2));
        return seen;
    });
}

TEST(explore, a_host_buffer_is_rewritten_only_after_its_readers_have_finished) {
    expect_clean([](scheduling_policy& pool) {
        stream a = pool.next(), b = pool.next();
        tensor<float> x(a, flat), y(b, flat);
        host_buffer<float> from(a, flat.size());
        std::ranges::fill(from.write(), 1.f);
        const auto upload_to = [&](stream on, tensor<float>& to) {
            sluice::detail::copy_bytes(on, {"upload"}, *to.memory(), *from.memory(), to.size_bytes(),
                                       copy_direction::host_to_device);
        };
        upload_to(a, x);
        std::ranges::fill(from.write(), 2.f);
        upload_to(b, y);
        return std::pair(contents(a, std::move(x)), contents(b, std::move(y)));
    });
}

TEST(explore, futures_may_be_dropped_at_any_moment) {
    expect_clean([](scheduling_policy& pool) {
        spawn(arm(1).and_then(download), pool);
        auto second = spawn(arm(2).and_then(download), pool);
        {
            const auto third = spawn(zip(arm(3), arm(4)), pool);
        }
        auto fourth = spawn(arm(5), pool);
        const auto kept = std::move(fourth).get();
        return std::move(second).get();
    });
}

TEST(explore, coroutines_await_futures) {
    expect_clean([](scheduling_policy& pool) { return awaits_one(pool, 1); });
    expect_clean([](scheduling_policy& pool) -> task<std::tuple<numbers, numbers>> {
        auto both = when_all(awaits_one(pool, 1), awaits_one(pool, 2));
        co_return co_await std::move(both);
    });
}

TEST(explore, when_any_may_return_any_of_its_tasks_first) {
    bool was_first[2] = {};
    expect_clean(
        [&](scheduling_policy& pool) -> task<> {
            auto either = when_any(awaits_one(pool, 1), awaits_one(pool, 2));
            const auto first = co_await std::move(either);
            was_first[first.index] = true;
        },
        {.results_may_differ = true});
    EXPECT_TRUE(was_first[0]);
    EXPECT_TRUE(was_first[1]);
}

TEST(explore, an_allocation_waits_until_memory_is_free) {
    expect_clean(
        [](scheduling_policy& pool) {
            auto first = spawn(arm(1).and_then(download), pool);
            auto second = spawn(arm(2).and_then(download), pool);
            auto third = spawn(arm(3).and_then(download), pool);
            return std::tuple(std::move(third).get(), std::move(first).get(), std::move(second).get());
        },
        {.memory_bytes = 3 * 512});
}

TEST(explore, library_calls_run) {
    expect_clean([] {
        return zip(upload(ramp(dim * dim), {dim, dim}), upload(ramp(dim * dim, 1), {dim, dim}))
            .and_then([](auto x, auto w) { return gemm(std::move(x), shared_tensor<float>(std::move(w))); })
            .and_then(download);
    });
}

TEST(explore, library_calls_with_scratch_memory_run_concurrently) {
    expect_clean([] {
        const auto layer = [](float first) {
            std::vector<half> x;
            for (const float each : ramp(dim * dim, first)) x.push_back(half(each));
            return zip(upload(x, {dim, dim}), upload(x, {dim, dim})).and_then([](auto a, auto b) {
                return gemm(std::move(a), std::move(b), {.transpose_b = true, .after = activation::relu});
            });
        };
        return zip(layer(0), layer(1)).and_then([](auto a, auto b) {
            return zip(download(std::move(a)), download(std::move(b)));
        });
    });
}

TEST(explore, a_polling_loop_of_the_host_ends) {
    expect_clean(
        [](scheduling_policy& pool) {
            stream on = pool.next();
            const tensor<float> x(on, flat);
            set(on, x, 1);
            while (on.passed() < on.issued()) on.poll();
            auto later = spawn(arm(1).and_then(download), pool);
            while (!later.is_ready()) on.owner().all_queues()[1]->poll();
            return std::move(later).get();
        },
        {.schedules = 200});
}

}  // namespace sluice::sim::explore_tests
