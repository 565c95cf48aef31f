// SPDX-License-Identifier: Apache-2.0
// Graphs that kernels launch and that copy from and to pinned host memory.

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "graph/support/launching_kernels.hpp"
#include "support/at_each_change.hpp"

namespace sluice::conformance::launchable_pinned_tests {
namespace {

CONFORMANCE_SUITE(launchable_pinned);

struct add_all {
    SLUICE_KERNEL void operator()(index_1d at, view<const int> by, disjoint_view<int> x) const {
        if (int* const element = x.at(at)) *element += by[at.value()];
    }
};

// x += in; out = x.
auto accumulates(const pinned_tensor<int>& in, const pinned_tensor<int>& out) {
    return [=](tensor<int> x) {
        return in.load()
            .and_then([sum = std::move(x)](tensor<int> by) mutable {
                auto range = each_of(sum);
                return launch(add_all{}, range, shared_tensor<int>(std::move(by)), std::move(sum));
            })
            .and_then([out](tensor<int> sum) { return out.store(std::move(sum)); });
    };
}

TEST_P(launchable_pinned, a_launched_graph_reads_and_writes_host_memory) {
    round_robin pool(on, 2);
    for (const std::size_t size : {1, 1000, 400'000}) {  // small copies are kernels on a GPU, large ones copy nodes
        SCOPED_TRACE(size);
        const pinned_tensor<int> in(on, {size}), out(on, {size});
        const auto graph = launchable(on, accumulates(in, out), device_input<int>({size}));
        const auto tick = launched_once(on, graph, how::fire_and_forget);
        set_state(graph, std::vector<int>(size), pool);
        for (int i = 1; i <= 3; ++i) {
            in.write(std::vector<int>(size, i));
            EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
            EXPECT_EQ(out.read(), std::vector<int>(size, i * (i + 1) / 2));
        }
        EXPECT_EQ(state_of(graph, pool), std::vector<int>(size, 6));
    }
}

TEST_P(launchable_pinned, the_host_waits_for_the_launch_that_uses_the_memory) {
    round_robin pool(on, 4);
    const pinned_tensor<int> in(on, {1000}), out(on, {1000});
    const auto graph = launchable(on, accumulates(in, out), device_input<int>({1000}));
    const auto tick = launched_once(on, graph, how::tail);
    set_state(graph, std::vector<int>(1000), pool);
    for (int i = 1; i <= 20; ++i) {
        in.write(std::vector<int>(1000, 1));
        auto running = spawn(tick(), pool);
        in.write(std::vector<int>(1000, 100));  // after the launch, which reads 1
        EXPECT_EQ(out.read(), std::vector<int>(1000, i));
        EXPECT_EQ(std::move(running).get(), std::vector<int>{1});
    }
}

TEST_P(launchable_pinned, a_graph_that_launches_the_graph_names_the_memory_too) {
    round_robin pool(on, 4);
    const pinned_tensor<int> in(on, {100}), out(on, {100});
    const auto leaf = launchable(on, accumulates(in, out), device_input<int>({100}));
    const auto middle =
        launchable(on, [=](tensor<int> x) { return launching(leaf, how::tail, std::move(x)); }, device_input<int>({1}));
    const auto tick = launched_once(on, middle, how::tail);
    set_state(leaf, std::vector<int>(100), pool);
    set_state(middle, {0}, pool);
    in.change([](std::span<int> all) { std::ranges::fill(all, 2); });
    for (int i = 1; i <= 10; ++i) {
        auto running = spawn(tick(), pool);
        EXPECT_EQ(out.read(), std::vector<int>(100, 2 * i));
    }
}

TEST_P(launchable_pinned, handles_are_dropped_while_the_graph_runs) {
    round_robin pool(on, 2);
    const auto make = [&] {
        const pinned_tensor<int> in(on, {300}), out(on, {300});
        const auto graph = launchable(on, accumulates(in, out), device_input<int>({300}));
        in.write(std::vector<int>(300, 1));
        return std::pair(launched_once(on, graph, how::tail), out);
    };
    for (int i = 0; i < 5; ++i) {
        auto [tick, out] = make();
        auto running = spawn(tick(), pool);
        const auto later = std::make_optional(make().first());  // a launch whose graph has no other handle
        EXPECT_EQ(sync(*later, pool), std::vector<int>{1});
        EXPECT_EQ(std::move(running).get(), std::vector<int>{1});
    }
}

TEST_P(launchable_pinned, threads_that_write_and_launch_do_not_mix) {
    round_robin pool(on, 8);
    constexpr std::size_t size = 5'000;
    const pinned_tensor<int> in(on, {size}), out(on, {size});
    const auto copies = launchable(
        on, [=](tensor<int>) { return in.load().and_then([=](tensor<int> x) { return out.store(std::move(x)); }); },
        device_input<int>({size}));
    std::atomic<bool> is_over{false};
    std::atomic<int> launched{0}, torn{0};
    const auto is_torn = [](const std::vector<int>& x) {
        return std::count(x.begin(), x.end(), x[0]) != static_cast<std::ptrdiff_t>(x.size());
    };
    std::thread writer([&] {
        int i = 0;
        test_support::at_each_change(launched, is_over, [&] { in.write(std::vector<int>(size, i++)); });
    });
    std::thread reader(
        [&] { test_support::at_each_change(launched, is_over, [&] { torn += is_torn(out.read()) ? 1 : 0; }); });
    const auto launch_many = [&] {
        const auto tick = launched_once(on, copies, how::tail);
        for (int i = 0; i < 50; ++i, ++launched) sluice::sync(tick(), pool);
    };
    std::thread second(launch_many);
    launch_many();
    second.join();
    is_over = true;
    writer.join();
    reader.join();
    EXPECT_EQ(torn, 0);
    EXPECT_FALSE(is_torn(state_of(copies, pool)));
}

TEST_P(launchable_pinned, constants_are_uploaded_from_a_block_of_the_graph) {
    round_robin pool(on, 2);
    using changing = std::function<any_operation<tensor<int>>(tensor<int>)>;
    const auto constant = [](int number) -> changing {
        return [=](tensor<int>) -> any_operation<tensor<int>> { return upload(std::vector<int>{number, 2}); };
    };
    const auto graph = launchable(on, constant(1), device_input<int>({2}));
    const auto tick = launched_once(on, graph, how::tail);
    for (int i = 0; i < 10; ++i) {
        set_state(graph, {0, 0}, pool);
        EXPECT_EQ(sync(tick(), pool), std::vector<int>{1});
        EXPECT_EQ(state_of(graph, pool), (std::vector<int>{i + 1, 2}));
        static_cast<void>(graph.update(constant(i + 2)));
    }
}

TEST_P(launchable_pinned, an_update_cannot_use_other_host_memory) {
    using changing = std::function<any_operation<tensor<int>>(tensor<int>)>;
    const pinned_tensor<int> one(on, {2}), other(on, {2});
    const auto loads = [](const pinned_tensor<int>& from) -> changing {
        return [=](tensor<int>) -> any_operation<tensor<int>> { return from.load(); };
    };
    const auto graph = launchable(on, loads(one), device_input<int>({2}));
    expect_refused(errc::graph_refused, {"pinned_tensor", "when it was first recorded", "create it before"},
                   [&] { static_cast<void>(graph.update(loads(other))); });
    EXPECT_EQ(graph.update(loads(one)), graph_change::none);
}

TEST_P(launchable_pinned, commands_after_the_launching_kernel_cannot_use_the_memory) {
    const pinned_tensor<int> in(on, {1}), out(on, {1});
    const auto graph = launchable(on, accumulates(in, out), device_input<int>({1}));
    expect_refused(errc::graph_refused, {"launch_and_count", "load"}, [&] {
        static_cast<void>(compile(on, [=] {
            return zeros<int>({1})
                .and_then([=](auto said) { return launching(graph, how::tail, std::move(said)); })
                .and_then([=](auto) { return out.load(); });
        }));
    });
}

TEST_P(launchable_pinned, results_for_nobody_are_refused) {
    const auto room = std::make_shared<std::vector<int>>(1);
    expect_refused(errc::graph_refused, {"download", "pinned_tensor"}, [&] {
        static_cast<void>(launchable(
            on,
            [=](tensor<int> x) {
                return download_to(std::move(x), std::span<int>(*room), room).and_then([](auto) {
                    return zeros<int>({1});
                });
            },
            device_input<int>({1})));
    });
}

}  // namespace
}  // namespace sluice::conformance::launchable_pinned_tests
