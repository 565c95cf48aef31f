// SPDX-License-Identifier: Apache-2.0
// Work over several devices: on all devices of the tested device's kind, and on fewer.
#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/awaiting.hpp"
#include "conformance/support/device_sets.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::device_set_tests {
namespace {

using numbers = std::vector<unsigned>;
constexpr std::size_t size = 300;

class device_sets : public conformance_test {
protected:
    // An operation that starts on `on` may use each of these.
    const device_set all = devices_of_same_kind(devices, on);
    round_robin_devices pool{all, 3};
    device& last = all[all.size() - 1];

    bool is_alone() const { return all.size() == 1; }
    static std::string location(const tensor<unsigned>& x) { return x.memory()->owner().name(); }
    // A slow operation on the given device.
    auto made_on(device& there, unsigned start) const {
        return on_device(there, full<unsigned>({size}, start).and_then([rounds = slow()](auto x) {
            return step(std::move(x), 4, rounds);
        }));
    }
};
INSTANTIATE_TEST_SUITE_P(, device_sets, testing::ValuesIn(backends_and_single_device()), backend_name);

#define NEEDS_TWO_DEVICES() \
    if (is_alone()) GTEST_SKIP() << "there is only one device of its kind"

}  // namespace

TEST_P(device_sets, have_devices_of_one_kind_and_runtime) {
    EXPECT_TRUE(all.contains(on));
    EXPECT_EQ(device_set::of(devices, GetParam().device).size(), 1u);
    const std::string kind = on.kind() == device_kind::cuda ? "cuda" : "cpu";
    EXPECT_EQ(device_set::of(devices, kind), all);
    EXPECT_EQ(device_set::of(devices).kind(), devices.default_device().kind());
    expect_refused(errc::invalid_argument, {"at least one"}, [&] { device_set(std::vector<device*>{}); });
    expect_refused(errc::device_not_found, {"cpu:9"}, [&] { device_set::of(devices, "cpu:9"); });
    runtime stranger(options());
    expect_refused(errc::invalid_argument, {on.name(), "one runtime"},
                   [&] { device_set{on, stranger.find(GetParam().device)}; });
    if (on.kind() == device_kind::cuda)
        expect_refused(errc::invalid_argument, {"kind"}, [&] { device_set{on, devices.find("cpu:0")}; });
}

TEST_P(device_sets, a_part_on_a_device_runs_and_stays_there) {
    for (device* const each : all) {
        auto x = spawn(made_on(*each, 5), pool).get();
        EXPECT_EQ(location(x), each->name());
        EXPECT_EQ(sync(on_device(*each, download(std::move(x))), pool), numbers(size, 19));
    }
}

TEST_P(device_sets, parts_on_each_device_come_in_order) {
    auto parts = sync(on_each(all, [&](std::size_t i) { return made_on(all[i], unsigned(i)); }), pool);
    ASSERT_EQ(parts.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(location(parts[i]), all[i].name());
    const auto contents = sync(download_each(std::move(parts)), pool);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(contents[i], numbers(size, 3 * unsigned(i) + 4));
}

TEST_P(device_sets, one_device_may_act_as_several) {
    const device_set thrice{on, on, on};
    EXPECT_EQ(thrice.size(), 3u);
    EXPECT_EQ(thrice.distinct().size(), 1u);
    round_robin_devices streams(thrice, 4);
    auto parts = sluice::sync(on_each(thrice, [&](std::size_t i) { return made_on(on, unsigned(i)); }), streams);
    EXPECT_EQ(sluice::sync(gather(std::move(parts)).and_then(download), streams).size(), 3 * size);
    auto weights = sluice::sync(full<unsigned>({size}, 7).and_then(replicate(thrice)), streams);
    EXPECT_EQ(weights[0]->memory(), weights[2]->memory());
}

TEST_P(device_sets, a_copy_comes_after_the_writer_of_the_original) {
    for (device* const from : all) {
        for (device* const to : all) {
            auto copied = spawn(made_on(*from, 2).and_then(copy_to(*to)), pool);
            auto x = std::move(copied).get();
            EXPECT_EQ(location(x), to->name());
            EXPECT_EQ(sync(on_device(*to, download(std::move(x))), pool), numbers(size, 10));
        }
    }
}

TEST_P(device_sets, a_tensor_that_is_there_already_is_copied_only_if_it_is_shared) {
    tensor<unsigned> x = sluice::sync(made_on(last, 1), pool);
    const void* const place = x.device_data();
    x = sluice::sync(copy_to(last, std::move(x)), pool);
    EXPECT_EQ(x.device_data(), place);
    const shared_tensor<unsigned> kept(std::move(x));
    auto copy = sluice::sync(copy_to(last, kept), pool);
    EXPECT_NE(copy.device_data(), place);
    EXPECT_EQ(sluice::sync(on_device(last, download(std::move(copy))), pool), numbers(size, 7));
    EXPECT_EQ(sluice::sync(copy_to(last, tensor<unsigned>()), pool).size(), 0u);
}

// Each device in turn takes the tensor, changes it and passes it on; its memory is reused at once.
TEST_P(device_sets, a_tensor_may_pass_through_all_devices) {
    constexpr unsigned laps = 25;
    std::vector<device_future<pending<numbers>>> rounds;
    for (unsigned start = 0; start < 4; ++start) {
        any_operation<tensor<unsigned>> x = made_on(all[0], start);
        for (unsigned lap = 0; lap < laps; ++lap) {
            device& next = all[(lap + 1) % all.size()];
            x = std::move(x).and_then(copy_to(next)).and_then([&next, lap](auto y) {
                return on_device(next, step(std::move(y), lap, 0));
            });
        }
        device& end = all[laps % all.size()];
        rounds.push_back(
            spawn(std::move(x).and_then([&end](auto y) { return on_device(end, download(std::move(y))); }), pool));
    }
    for (unsigned start = 0; start < 4; ++start)
        EXPECT_EQ(std::move(rounds[start]).get(), numbers(size, after_steps(3 * start + 4, laps)));
}

TEST_P(device_sets, a_copy_to_another_device_completes_beside_a_held_kernel) {
    NEEDS_TWO_DEVICES();
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    round_robin alone(all[0], 1);
    const stream held = alone.next();
    const auto there_and_back = [&](tensor<unsigned> y) {
        return copy_to(last)(std::move(y)).and_then([&](auto z) {
            return on_device(last, copy_to(all[0])(std::move(z)));
        });
    };
    auto kernel = sync_on(full<unsigned>({size}, 1), held);
    auto x = sluice::sync(on_device(all[0], full<unsigned>({size}, 7)).and_then(there_and_back), pool);  // loads both
    all[0].synchronize();
    gate closed(held);
    step_on(held, kernel, 4);
    const ticket gated = held.issued();
    auto there = sluice::sync(copy_to(last)(std::move(x)), pool);
    EXPECT_FALSE(has_passed(held, gated));
    EXPECT_EQ(location(there), last.name());
    closed.open();
    round_robin at_last(last, 1);
    EXPECT_EQ(contents(std::move(there), at_last.next()), numbers(size, 7));
    EXPECT_EQ(contents(std::move(kernel), held), numbers(size, 7));
}

TEST_P(device_sets, the_source_of_a_copy_is_written_only_after_the_copy) {
    std::vector<device_future<pending<numbers>>> copies;
    for (unsigned i = 0; i < 50; ++i) {
        copies.push_back(spawn(made_on(all[0], i).and_then(copy_to(last)).and_then([&](auto x) {
            return on_device(last, download(std::move(x)));
        }),
                               pool));
    }
    for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(std::move(copies[i]).get(), numbers(size, 3 * i + 4));
}

TEST_P(device_sets, weights_are_copied_once_to_each_device) {
    for (device* const home : all) {
        auto weights = sluice::sync(made_on(*home, 3).and_then(replicate(all)), pool);
        ASSERT_EQ(weights.size(), all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(location(*weights[i]), all[i].name());
            EXPECT_EQ(sluice::sync(on_device(all[i], download(weights[i])), pool), numbers(size, 13));
        }
    }
    // Replicates to a set that does not have it.
    if (is_alone()) return;
    auto weights = sluice::sync(made_on(all[0], 3).and_then(replicate(device_set{last})), pool);
    EXPECT_EQ(location(*weights.at(0)), last.name());
}

TEST_P(device_sets, rows_are_split_and_joined_again) {
    for (const std::size_t rows : {0u, 1u, 2u, 3u, 7u, 64u, 1001u}) {
        const auto values = counting<unsigned>(rows * 5);
        auto parts = sync(shard(all, values, {rows, 5}), pool);
        std::size_t counted = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            EXPECT_EQ(parts[i].shape()[1], 5u);
            EXPECT_LE(parts[i].shape()[0], rows / all.size() + 1);
            counted += parts[i].shape()[0];
            EXPECT_EQ(location(parts[i]), all[i].name());
        }
        EXPECT_EQ(counted, rows);
        auto whole = sync(on_device(last, gather(std::move(parts))), pool);
        EXPECT_EQ(whole.shape(), (shape{rows, 5}));
        // Also from the memory of one device.
        auto again = sync(shard(all, std::move(whole)).and_then(gather).and_then(download), pool);
        EXPECT_EQ(again, values) << rows;
    }
}

TEST_P(device_sets, shards_are_processed_by_all_devices_concurrently) {
    const auto values = counting<unsigned>(all.size() * 40);
    const auto got = sync(shard(all, values, {all.size() * 8, 5})
                              .and_then([&](auto parts) {
                                  auto shared_parts = std::make_shared<std::vector<tensor<unsigned>>>(std::move(parts));
                                  return on_each(all, [this, shared_parts](std::size_t i) {
                                      return step(std::move((*shared_parts)[i]), 2, slow());
                                  });
                              })
                              .and_then(download_each),
                          pool);
    std::size_t at = 0;
    for (const numbers& each : got) {
        for (const unsigned value : each) EXPECT_EQ(value, 3 * values[at++] + 2);
    }
    EXPECT_EQ(at, values.size());
}

TEST_P(device_sets, coroutines_await_all_devices) {
    const auto outputs = sync_wait(
        [](const device_set& on_all, scheduling_policy& streams, unsigned rounds) -> task<std::vector<numbers>> {
            auto parts = co_await spawn(on_each(on_all,
                                                [=](std::size_t i) {
                                                    return full<unsigned>({size}, unsigned(i)).and_then([=](auto x) {
                                                        return step(std::move(x), 1, rounds);
                                                    });
                                                }),
                                        streams);
            co_return co_await spawn(download_each(std::move(parts)), streams);
        }(all, pool, slow()));
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(outputs[i], numbers(size, 3 * unsigned(i) + 1));
}

// A host call receives the downloads of all devices when they are complete.
TEST_P(device_sets, a_host_call_waits_for_the_downloads_of_all) {
    for (unsigned round = 0; round < 10; ++round) {
        auto sum = spawn(on_each(all, [&](std::size_t i) { return made_on(all[i], unsigned(i) + round); })
                             .and_then(download_each)
                             .and_then([](auto landed) {
                                 return host_call(
                                     [](const std::vector<numbers>& each) {
                                         unsigned total = 0;
                                         for (const numbers& one : each) total += one.at(size - 1);
                                         return total;
                                     },
                                     std::move(landed));
                             }),
                         pool);
        unsigned expected = 0;
        for (unsigned i = 0; i < all.size(); ++i) expected += 3 * (i + round) + 4;
        EXPECT_EQ(std::move(sum).get(), expected);
    }
}

TEST_P(device_sets, only_copies_accept_memory_of_another_device) {
    NEEDS_TWO_DEVICES();
    device& other = &on == &all[0] ? last : all[0];
    auto x = sluice::sync(made_on(other, 1), pool);
    expect_refused(errc::invalid_argument, {other.name(), "copy it to " + on.name()},
                   [&] { sluice::sync(on_device(on, step(std::move(x), 1, 0)), pool); });
}

TEST_P(device_sets, a_policy_without_streams_of_the_device_is_refused) {
    NEEDS_TWO_DEVICES();
    round_robin streams(on, 2);
    device& other = &on == &all[0] ? last : all[0];
    expect_refused(errc::invalid_argument, {other.name(), "no streams"},
                   [&] { sluice::sync(made_on(other, 1), streams); });
    expect_refused(errc::invalid_argument, {other.name(), "no policy"},
                   [&] { sync_on(made_on(other, 1), streams.next()); });
    EXPECT_EQ(sluice::sync(made_on(on, 1).and_then(download), streams), numbers(size, 7));
}

TEST_P(device_sets, a_graph_uses_one_device) {
    NEEDS_TWO_DEVICES();
    device& other = &on == &all[0] ? last : all[0];
    expect_refused(errc::graph_refused, {other.name(), "one device"}, [&] {
        static_cast<void>(compile(
            pool.on(on), [&](tensor<unsigned> x) { return copy_to(other, std::move(x)); },
            device_input<unsigned>({size})));
    });
    auto away = sluice::sync(made_on(other, 1), pool);
    const shared_tensor<unsigned> weights(std::move(away));
    expect_refused(errc::graph_refused, {on.name(), "one device"},
                   [&] { static_cast<void>(compile(pool.on(on), [&] { return copy_to(on, weights); })); });
    // On its own device all of this works.
    const auto fast = compile(
        pool.on(on), [&](tensor<unsigned> x) { return copy_to(on, std::move(x)).and_then(download); },
        device_input<unsigned>({size}));
    EXPECT_EQ(sluice::sync(full<unsigned>({size}, 3).and_then(fast), pool.on(on)), numbers(size, 3));
}

TEST_P(device_sets, copies_between_kinds_of_devices_are_refused) {
    if (on.kind() == device_kind::cpu) GTEST_SKIP() << "needs a second kind of device";
    device& cpu = devices.find("cpu:0");
    single_stream there(cpu);
    expect_refused(errc::invalid_argument, {"cpu:0", "does not have this device"},
                   [&] { sluice::sync(made_on(cpu, 1), pool); });
    // Memory of the CPU device; a stream of the GPU copies it.
    const shared_tensor<unsigned> x(sluice::sync(full<unsigned>({size}, 1), there));
    expect_refused(errc::unsupported, {"cpu:0", on.name(), "download"},
                   [&] { sluice::sync(copy_to(on, x), pool.on(on)); });
}

TEST_P(device_sets, shapes_that_cannot_be_split_or_joined_are_refused) {
    expect_refused_here(errc::shape_mismatch, {"3 values", "[2, 2]"}, [&] { shard(all, numbers{1, 2, 3}, {2, 2}); });
    expect_refused_here(errc::shape_mismatch, {"no rows"}, [&] { sluice::sync(shard(all, numbers{1}, {}), pool); });
    expect_refused_here(errc::shape_mismatch, {"at least one"},
                        [&] { sluice::sync(gather(std::vector<tensor<unsigned>>()), pool); });
    std::vector<tensor<unsigned>> parts;
    parts.push_back(sluice::sync(zeros<unsigned>({2, 3}), pool));
    parts.push_back(sluice::sync(zeros<unsigned>({2, 4}), pool));
    expect_refused_here(errc::shape_mismatch, {"[2, 3]", "[2, 4]"},
                        [&] { sluice::sync(gather(std::move(parts)), pool); });
}

TEST_P(device_sets, work_goes_to_the_device_with_the_least_in_flight) {
    NEEDS_TWO_DEVICES();
    NEEDS_A_GATE();
    least_loaded_device busy(all, 1);
    std::vector<std::unique_ptr<gate>> held;
    std::vector<device*> taken;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        stream one = busy.next();
        taken.push_back(&one.owner());
        held.push_back(std::make_unique<gate>(one));
    }
    // All devices but one are held by a gate, each with work in flight; work on the last device completes.
    device* const free =
        *std::ranges::find_if(all, [&](device* each) { return std::ranges::find(taken, each) == taken.end(); });
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ(&busy.next().owner(), free);
        sync(full<unsigned>({size}, i), busy);
    }
    for (auto& each : held) each->open();
    std::vector<device_future<pending<numbers>>> many;
    for (unsigned i = 0; i < 40; ++i) many.push_back(spawn(full<unsigned>({size}, i).and_then(download), busy));
    for (unsigned i = 0; i < 40; ++i) EXPECT_EQ(std::move(many[i]).get(), numbers(size, i));
}

}  // namespace sluice::conformance::device_set_tests
