// SPDX-License-Identifier: Apache-2.0
// Correct pipelines are clean in every order of their commands, and every finding can be reproduced.
#include <gmock/gmock.h>

#include "sim/pipelines.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/async/when_any.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim {
namespace {

using numbers = std::vector<float>;
using testing::HasSubstr;

const shape flat{8};

template <typename Pipeline>
void expect_clean(Pipeline pipeline, exploration_options options = {}) {
    options.schedules = std::min<std::uint64_t>(options.schedules, 2'000);
    const exploration made = explore(pipeline, options);
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(made.schedules, options.schedules);
}

auto step(tensor<float> x, float addend) {
    return upload(numbers(x.size(), addend)).and_then([to = std::move(x)](auto more) mutable {
        return launch(add_all{}, each_of(to), std::move(more), std::move(to));
    });
}

// Enough commands to occupy one stream.
auto arm(float start) {
    return upload(numbers(flat.size(), start))
        .and_then([](auto x) { return step(std::move(x), 1); })
        .and_then([](auto x) { return step(std::move(x), 2); });
}

any_operation<tensor<float>> chain(int length) {
    any_operation<tensor<float>> made = zeros<float>(flat);
    for (int i = 0; i < length; ++i)
        made = std::move(made).and_then([i](auto x) { return step(std::move(x), float(i)); });
    return made;
}

auto call_naming(std::function<void()> what, storage* reads = nullptr, storage* writes = nullptr) {
    return with_context([=](execution_context& context) {
        const std::array accesses{memory_access{reads, access_mode::read}, memory_access{writes, access_mode::write}};
        context.stream().host_call({"host call", accesses}, {what});
    });
}

task<numbers> awaits_one(scheduling_policy& pool, float start) {
    auto first = spawn(arm(start).and_then(download), pool);
    numbers got = co_await std::move(first);
    auto second =
        spawn(upload(std::move(got)).and_then([](auto x) { return step(std::move(x), 1); }).and_then(download), pool);
    co_return co_await std::move(second);
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

TEST(explore, a_reader_of_a_failed_calls_output_gets_the_exception) {
    const auto fails = [](scheduling_policy& pool) {
        return sync(zip(arm(1), arm(2))
                        .and_then([](auto x, auto y) {
                            return call_naming([] { throw std::runtime_error("out of ink"); }, nullptr, x.memory())
                                .and_then([x = std::move(x), y = std::move(y)]() mutable {
                                    return launch(add_all{}, each_of(y), std::move(x), std::move(y));
                                });
                        })
                        .and_then(download),
                    pool);
    };
    const auto made = explore(fails, {.schedules = 100});
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::exception);
    EXPECT_THAT(made.found->message, HasSubstr("out of ink"));
    expect_clean([&](scheduling_policy& pool) {
        try {
            fails(pool);
        } catch (const std::runtime_error& failure) {
            return std::string(failure.what());
        }
        throw std::logic_error("got no exception");
    });
}

TEST(explore, a_kernel_that_depends_on_a_failed_call_is_not_run) {
    expect_clean([](scheduling_policy& pool) {
        stream on = pool.next();
        const tensor<float> x(on, flat);
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        bool ran = false;
        bool* const note = &ran;
        on.host_call({"fail", accesses}, {[] { throw std::runtime_error("out of ink"); }});
        on.launch({"kernel", accesses},
                  {.host_function = [](const void* closure) { **static_cast<bool* const*>(closure) = true; },
                   .closure = &note,
                   .closure_bytes = sizeof(note)});
        on.wait(on.issued(), wait_mode::block);
        if (ran) throw std::logic_error("ran on memory that was never written");
        return 0;
    });
}

TEST(explore, another_operation_that_reads_a_failed_value_gets_the_exception) {
    expect_clean([](scheduling_policy& pool) {
        const auto failing = share(arm(1).and_then([](auto x) {
            return call_naming([] { throw std::runtime_error("out of ink"); }, nullptr, x.memory())
                .and_then([x = std::move(x)]() mutable { return value(std::move(x)); });
        }));
        const auto reader = [&] {
            return zip(failing, arm(2))
                .and_then([](auto w, auto x) { return launch(add_all{}, each_of(x), std::move(w), std::move(x)); })
                .and_then(download);
        };
        spawn(reader(), pool);  // submits the failing command; its result is never requested
        try {
            sync(reader(), pool);
        } catch (const std::runtime_error& failure) {
            return std::string(failure.what());
        }
        throw std::logic_error("got no exception");
    });
    const auto made = explore([](scheduling_policy& pool) {
        const auto failing = share(call_naming([] { throw std::runtime_error("out of ink"); }));
        sync(failing, pool);
    });
    EXPECT_EQ(made.found.value().what, fault::exception);
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

TEST(explore, a_refused_command_leaves_the_order_as_it_was) {
    refuses_once refusal("clear", false);
    expect_clean(
        [](scheduling_policy& pool) {
            stream a = pool.next(), b = pool.next(), c = pool.next();
            const tensor<float> x(a, flat);
            tensor<float> y(c, flat);
            set(c, y, 1);
            set(a, x, 2);
            const std::array accesses{memory_access{x.memory(), access_mode::write}};
            EXPECT_THROW(b.fill({"clear", accesses}, {x.device_data(), 0, x.size_bytes()}), error);
            add(c, x, y);
            return contents(c, std::move(y));
        },
        {.planted = &refusal});
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

TEST(explore, an_unexpected_exception_is_a_finding) {
    const auto throws = []() -> allocate_operation<float> { throw std::runtime_error("no paper"); };
    const auto made = explore(throws, {.schedules = 10});
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::exception);
    EXPECT_THROW(made.require_clean(), std::runtime_error);
    EXPECT_TRUE(explore(throws, {.schedules = 10, .exceptions_are_fine = true}).is_clean());
}

TEST(explore, a_report_names_both_commands_their_lines_the_storage_and_the_seed) {
    drops_waits saboteur(1);
    const auto pipeline = [](scheduling_policy& pool) {
        stream a = pool.next(), b = pool.next();
        const auto written = sync_on(zeros<float>(flat), a);
        const tensor<float> read(b, flat);
        set(a, written, 1);
        add(b, written, read);
    };
    const auto made = explore(pipeline, {.schedules = 1, .planted = &saboteur});
    ASSERT_FALSE(made.is_clean());
    const finding& found = *made.found;
    EXPECT_EQ(found.what, fault::race);
    EXPECT_EQ(found.first.name, "set_all");
    EXPECT_EQ(found.first.stream, 0u);
    EXPECT_EQ(found.first.ticket, 2u);
    EXPECT_EQ(found.first.device, "sim:0");
    EXPECT_EQ(found.second.name, "add_all");
    EXPECT_EQ(found.second.stream, 1u);
    EXPECT_EQ(found.second.ticket, 1u);
    EXPECT_THAT(found.second.location, HasSubstr("saboteurs.hpp:"));
    EXPECT_EQ(found.storage, "storage 1 (32 bytes of sim:0)");
    EXPECT_THAT(to_string(found), HasSubstr("race: add_all (sim:0, stream 1, ticket 1, saboteurs.hpp:"));
    EXPECT_THAT(to_string(found), HasSubstr("(seed 0)"));

    const auto uninitialised =
        explore([] { return named("nothing yet", uninitialized<float>(flat).and_then(download)); });
    EXPECT_THAT(to_string(uninitialised.found.value()), HasSubstr("download of 'nothing yet'"));
}

TEST(simulator, time_is_virtual_and_determined_by_the_seed) {
    const auto run = [](std::uint64_t seed) {
        simulator machine;
        machine.begin(seed);
        const auto y = sync(arm(1).and_then(download), machine.pool());
        machine.run_all();
        machine.require_clean();
        return machine.now();
    };
    EXPECT_EQ(run(7), run(7));
    EXPECT_NE(run(7), run(8));
    EXPECT_GT(run(7).count(), 0);
}

TEST(simulator, a_schedule_depends_on_its_seed_and_not_on_earlier_schedules) {
    const auto run = [](simulator& machine, std::uint64_t seed) {
        machine.begin(seed);
        round_robin pool(machine.device(), 4);
        const auto weights = share(upload(ramp(dim * dim), {dim, dim}));
        const auto vector = share(upload(ramp(dim)));
        std::vector<device_future<pending<numbers>>> all;
        for (int i = 0; i < 4; ++i) {
            all.push_back(
                spawn(zip(weights, vector).and_then([](auto w0, auto w1) { return forward(ramp(dim * dim), w0, w1); }),
                      pool));
        }
        all.erase(all.begin() + 1);
        for (auto& each : all) std::move(each).get();
        machine.run(awaits_one(pool, 2));
        machine.run_all();
        machine.require_clean();
        return machine.now();
    };
    simulator machine;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        simulator fresh;
        ASSERT_EQ(run(machine, seed), run(fresh, seed)) << "seed " << seed;
    }
}

TEST(simulator, events_are_stamped_in_virtual_time) {
    simulator machine;
    machine.begin(3);
    stream on = machine.pool().next();
    event before = event::record(on);
    const tensor<float> x(on, flat);
    set(on, x, 1);
    event after = event::record(on);
    EXPECT_GT(elapsed(before, after).count(), 0.1);
    EXPECT_LT(elapsed(before, after).count(), 11);
}

TEST(simulator, has_the_requested_number_of_devices) {
    simulator machine({.devices = 2});
    single_stream one(machine.device(0)), other(machine.device(1));
    const auto made = explore(machine, [&](scheduling_policy&) {
        auto first = spawn(arm(1).and_then(download), one);
        auto second = spawn(upload(std::move(first).get()).and_then(download), other);
        return std::move(second).get();
    });
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_THROW(machine.device(2), error);
}

TEST(simulator, tensors_and_futures_may_outlive_it) {
    std::optional<tensor<float>> left;
    std::optional<device_future<pending<numbers>>> future;
    {
        simulator machine;
        left = sync(arm(1), machine.pool());
        future.emplace(spawn(arm(2).and_then(download), machine.pool()));
    }
    EXPECT_EQ(std::move(*future).get(), numbers(flat.size(), 5));
    EXPECT_EQ(left->size(), flat.size());
}

TEST(simulator, refuses_more_than_fifteen_streams) {
    simulator machine;
    EXPECT_THROW(round_robin(machine.device(), 16), error);
}

}  // namespace sluice::sim
