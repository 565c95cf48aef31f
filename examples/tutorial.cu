// SPDX-License-Identifier: Apache-2.0
// tutorial: the program of docs/tutorial.md, from a kernel to a compiled pipeline on four streams.
//
//     tutorial [TIMELINE.svg]      draws what ran on which stream when into the file
#include <sluice/sluice.hpp>

#include <algorithm>
#include <cstdio>

using namespace sluice;

// A kernel: y += a * x.
struct add_scaled {
    SLUICE_KERNEL void operator()(index_1d at, float a, view<const float> x, disjoint_view<float> y) const {
        if (float* element = y.at(at)) *element += a * x[at.value()];
    }
};

// A pipeline: scores = relu(batch - 0.5 * weights), on the device.
auto scores_of(tensor<float> batch, shared_tensor<float> weights) {
    return named("scores", launch(add_scaled{}, each_of(batch), -0.5f, std::move(weights), std::move(batch)))
        .and_then(relu);
}

auto scores(std::vector<float> batch, shared_tensor<float> weights) {
    return upload(std::move(batch))
        .and_then([=](tensor<float> x) { return scores_of(std::move(x), weights); })
        .and_then(download);
}

// A coroutine: two batches in flight, and no thread that waits for them.
task<float> larger_of(std::vector<float> first, std::vector<float> second, shared_tensor<float> weights,
                      scheduling_policy& pool) {
    auto one = spawn(scores(std::move(first), weights), pool);
    auto other = spawn(scores(std::move(second), weights), pool);
    const std::vector<float> a = co_await std::move(one);
    const std::vector<float> b = co_await std::move(other);
    co_return std::max(a[0], b[0]);
}

int main(int argc, char** argv) try {
    constexpr std::size_t size = 1 << 16;
    trace_recorder recorder;
    runtime machine({.trace = &recorder});
    round_robin pool(machine.default_device(), 4);

    const shared_tensor<float> weights(sync(upload(std::vector<float>(size, 2)), pool));
    const std::vector<float> y = sync(scores(std::vector<float>(size, 3), weights), pool);
    std::printf("sync: %g\n", y[0]);

    // Four batches on four streams at the same time.
    std::vector<decltype(spawn(scores({}, weights), pool))> running;
    for (int i = 0; i < 4; ++i) running.push_back(spawn(scores(std::vector<float>(size, float(i)), weights), pool));
    for (auto& batch : running) {
        const std::vector<float> values = std::move(batch).get();
        std::printf("spawn: %g\n", values[0]);
    }

    auto larger = larger_of(std::vector<float>(size, 4), std::vector<float>(size, 5), weights, pool);
    std::printf("coroutine: %g\n", sync_wait(std::move(larger)));

    // The same pipeline as a graph with memory for four launches at the same time.
    auto fast = compile(
        pool, {.replicas = 4, .name = "scores"},
        [=](tensor<float> x) { return scores_of(std::move(x), weights).and_then(download); },
        host_input<float>({size}));

    std::vector<std::vector<float>> batches;
    for (int i = 0; i < 4; ++i) batches.emplace_back(size, float(i));
    for (int round = 0; round < 2; ++round) {
        static_cast<void>(recorder.take());  // the picture shows the last round only
        std::vector<decltype(spawn(fast(batches[0]), pool))> launched;
        for (const auto& batch : batches) launched.push_back(spawn(fast(batch), pool));
        for (auto& launch : launched) {
            const std::vector<float> values = std::move(launch).get();
            if (round == 1) std::printf("compiled: %g\n", values[0]);
        }
    }
    const trace seen = recorder.take();
    if (argc > 1) save_timeline(seen, argv[1], {.title = "four launches of a compiled pipeline"});

    // The simulator runs the pipeline in a thousand orders.
    const auto two_batches = [](scheduling_policy& streams) {
        const shared_tensor<float> w(sync(upload(std::vector<float>{2, 2}), streams));
        return sync(zip(scores({3, 3}, w), scores({4, 4}, w)), streams);
    };
    sim::explore(two_batches, {.schedules = 1000}).require_clean();
    std::puts("no race in 1000 schedules");
} catch (const std::exception& failure) {
    std::fprintf(stderr, "tutorial: %s\n", failure.what());
    return 1;
}
