// SPDX-License-Identifier: Apache-2.0
// The code in docs/graphs.md. Runs on the default device: a GPU if there is one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "sluice/drawing/graph_drawing.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::graphs_tests {
namespace {

struct scale {
    SLUICE_KERNEL void operator()(index_1d at, float factor, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element *= factor;
    }
};

struct halve {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x, loop_condition again) const {
        float* const element = x.at(at);
        if (element == nullptr) return;
        *element /= 2;
        if (at.value() == 0) again.set(*element > 1);  // one thread sets it, in one kernel of the body
    }
};

struct watch {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> error, graph_launcher improve,
                                  disjoint_view<int> launched) const {
        int* const answer = launched.at(at);
        if (answer != nullptr) *answer = error[0] > 1 && improve.tail() ? 1 : 0;
    }
};
struct improve_and_repeat {
    SLUICE_KERNEL void operator()(index_1d at, self_launcher self, disjoint_view<float> x) const {
        float* const element = x.at(at);
        if (element == nullptr) return;
        *element /= 2;
        if (at.value() == 0 && *element > 1) static_cast<void>(self.tail());
    }
};

struct try_to_launch {
    SLUICE_KERNEL void operator()(index_1d at, graph_launcher other, disjoint_view<float> launched) const {
        if (float* const answer = launched.at(at)) *answer = other.tail() ? 1 : 0;
    }
};

class graphs : public testing::Test {
protected:
    shared_tensor<float> weight(std::size_t rows, std::size_t columns) {
        return shared_tensor<float>(sync(upload(std::vector<float>(rows * columns, 0.5f), {rows, columns}), pool));
    }

    runtime machine;
    device& on = machine.default_device();
    round_robin pool{on, 2};
};

}  // namespace

TEST_F(graphs, an_operation_is_compiled) {
    const shared_tensor<float> w0 = weight(64, 128), w1 = weight(128, 10);

    auto forward = [=](tensor<float> x) {
        return named("layer 1", gemm(std::move(x), w0).and_then(relu))
            .and_then([=](auto hidden) { return named("layer 2", gemm(std::move(hidden), w1)); })
            .and_then(download);
    };
    auto fast = compile(pool, forward, host_input<float>({32, 64}));

    const std::vector<float> x(32 * 64, 1.f);
    std::vector<float> y = sync(fast(x), pool);  // fast(x) is an operation, as forward's was

    EXPECT_EQ(y, std::vector<float>(32 * 10, 64 * 0.5f * 128 * 0.5f));

    const std::filesystem::path home = std::filesystem::current_path();
    std::string name = (std::filesystem::temp_directory_path() / "sluice_docs_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    std::filesystem::current_path(name);
    save_graph(fast.commands(), "mlp.svg");  // or "mlp.dot", for Graphviz
    EXPECT_GT(std::filesystem::file_size("mlp.svg"), 0u);
    std::filesystem::current_path(home);
    std::filesystem::remove_all(name);
}

TEST_F(graphs, arguments_replicas_and_updates) {
    auto scaled = [](tensor<float> x, float factor) {
        auto range = each_of(x);
        return named("scale", launch(scale{}, range, factor, std::move(x))).and_then(download);
    };
    auto fast = compile(pool, {.replicas = 2, .name = "scaled"}, scaled, host_input<float>({3}), argument<float>(2));
    const std::vector<float> x{1, 2, 3};

    fast.upload();                           // now, and not in the first launch of each replica
    auto first = spawn(fast(x, 2.f), pool);  // concurrently: each replica has memory of its own
    auto second = spawn(fast(x, 3.f), pool);
    EXPECT_EQ(std::vector<float>(std::move(first).get()), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(std::vector<float>(std::move(second).get()), (std::vector<float>{3, 6, 9}));

    fast.disable("scale");  // by the name of the operation, or of the command
    EXPECT_EQ(sync(fast(x, 2.f), pool), x);
    EXPECT_FALSE(fast.is_enabled("scale"));
    fast.enable("scale");
    EXPECT_EQ(sync(fast(x, 2.f), pool), (std::vector<float>{2, 4, 6}));
}

TEST_F(graphs, a_stream_replays_what_repeats) {
    device& gpu = pool.next().owner();
    const std::vector<float> x{2, 4, 6};
    const auto half_of = [](tensor<float> all) {
        auto range = each_of(all);
        return launch(scale{}, range, 0.5f, std::move(all));
    };

    round_robin streams(gpu, 4, {.replays = true});
    for (int batch = 0; batch < 100; ++batch) {
        const std::vector<float> y = sync(upload(x).and_then(half_of).and_then(download), streams);
        EXPECT_EQ(y, (std::vector<float>{1, 2, 3}));
    }
}

TEST_F(graphs, an_update_replaces_the_operation) {
    using function = std::function<any_operation<pending<std::vector<float>>>(tensor<float>)>;
    auto scaled_by = [](float factor) {
        return function([factor](tensor<float> x) {
            auto range = each_of(x);
            return any_operation<pending<std::vector<float>>>(
                launch(scale{}, range, factor, std::move(x)).and_then(download));
        });
    };
    auto fast = compile(pool, scaled_by(2), host_input<float>({1}));
    const graph_change what = fast.update(scaled_by(3));

    EXPECT_EQ(what, graph_change::parameters);
    EXPECT_EQ(sync(fast(std::vector<float>{1}), pool), std::vector<float>{3});
}

TEST_F(graphs, a_kernel_ends_a_loop) {
    auto until_small = [](tensor<float> x) {
        return do_while(
                   [](loop_flag again, tensor<float> now) {
                       auto range = each_of(now);
                       return launch(halve{}, range, std::move(now), again);
                   },
                   std::move(x))
            .and_then(download);
    };
    auto fast = compile(pool, until_small, host_input<float>({1}));
    EXPECT_EQ(sync(fast(std::vector<float>{100}), pool), std::vector<float>{100.f / 128});
}

TEST_F(graphs, a_kernel_launches_a_graph) {
    const auto improve = launchable(
        pool,
        [](self_launcher self, tensor<float> x) {
            auto range = each_of(x);
            return launch(improve_and_repeat{}, range, self, std::move(x));
        },
        device_input<float>({1}));
    sync(upload(std::vector<float>{100}).and_then([&](auto x) { return improve.set(std::move(x)); }), pool);

    auto look = [=](tensor<float> error) {
        return uninitialized<int>({1})
            .and_then([=, measured = shared_tensor<float>(std::move(error))](auto answer) {
                auto range = each_of(answer);
                return launch(watch{}, range, measured, improve, std::move(answer));
            })
            .and_then(download);
    };
    auto fast = compile(pool, look, host_input<float>({1}));
    EXPECT_EQ(sync(fast(std::vector<float>{0.5f}), pool), std::vector<int>{0});
    EXPECT_EQ(sync(fast(std::vector<float>{2}), pool), std::vector<int>{1});

    std::vector<float> x = sync(improve.get().and_then(download), pool);  // as the launch left it

    EXPECT_EQ(x, std::vector<float>{100.f / 128});
}

TEST_F(graphs, a_launched_graph_uses_pinned_memory_and_launches_another) {
    const pinned_tensor<float> goal(on, {1}), found(on, {1});
    using step = std::function<any_operation<tensor<float>>(tensor<float>)>;
    const auto goal_times = [=](float factor) -> step {
        return [=](tensor<float>) -> any_operation<tensor<float>> {
            return goal.load()
                .and_then([=](auto x) {
                    auto range = each_of(x);
                    return launch(scale{}, range, factor, std::move(x));
                })
                .and_then([=](auto x) { return found.store(std::move(x)); });
        };
    };
    const auto solve = launchable(pool, goal_times(2), device_input<float>({1}));

    const auto prepare = launchable(
        pool,
        [=](tensor<float> launched) {
            auto range = each_of(launched);
            return launch(try_to_launch{}, range, solve, std::move(launched));
        },
        device_input<float>({1}));

    auto look = [=](tensor<float> launched) {
        auto range = each_of(launched);
        return launch(try_to_launch{}, range, prepare, std::move(launched)).and_then(download);
    };
    auto fast = compile(pool, look, device_input<float>({1}));
    const auto zero = [&] { return sync(zeros<float>({1}), pool); };

    goal.write(std::vector<float>{3});
    sync(fast(zero()), pool);
    std::vector<float> y = found.read();  // blocks until no launch writes it

    EXPECT_EQ(y, std::vector<float>{6});

    solve.update(goal_times(5));  // `prepare` and `fast` stay as they are
    sync(fast(zero()), pool);

    EXPECT_EQ(found.read(), std::vector<float>{15});
}

}  // namespace sluice::docs::graphs_tests
