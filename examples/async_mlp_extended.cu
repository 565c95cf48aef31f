// SPDX-License-Identifier: Apache-2.0
// async_mlp_extended: four batches of 1024 rows run through a network with a softmax at the end, concurrently, on four
// streams. One batch fails on purpose, in host code; the others are not affected. Only main blocks, at the end. The
// pipeline is in async_mlp_extended.hpp, so that the simulator's tests can use it too.
//
//     async_mlp_extended [TIMELINE.svg]      also draws a timeline of the commands

#include "async_mlp_extended.hpp"

#include <cmath>
#include <cstdio>
#include <exception>

#include "sluice/async/sync_wait.hpp"

using namespace async_mlp_extended;

namespace {

constexpr std::size_t dim = 1024;
constexpr std::size_t classes = 64;
constexpr std::size_t batches = 4;

bool sums_to_one(const std::vector<float>& rows) {
    for (std::size_t row = 0; row < rows.size() / classes; ++row) {
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += static_cast<double>(rows[row * classes + c]);
        if (!(std::abs(sum - 1) < 1e-4)) return false;
    }
    return !rows.empty();
}

bool print(std::size_t batch, const outcome& told) {
    if (!told.failure.empty()) {
        std::printf("batch %zu: %s\n", batch, told.failure.c_str());
        return false;
    }
    const bool right = sums_to_one(told.rows);
    std::printf("batch %zu: %zu rows, probabilities %s\n", batch, told.rows.size() / classes,
                right ? "sum to 1" : "DO NOT SUM TO 1");
    return right;
}

int run(const char* timeline) {
    trace_recorder recorder;
    runtime machine({.trace = timeline != nullptr ? &recorder : nullptr});
    round_robin pool(machine.default_device(), batches);
    const auto [w0, w1] = make_weights(dim, classes, pool);
    if (timeline != nullptr) {
        // A first run loads libraries and fills pools; the timeline leaves it out.
        sync_wait(run_batches(batches, w0, w1, pool));
        recorder.take();
    }
    const std::vector<outcome> outcomes = sync_wait(run_batches(batches, w0, w1, pool));
    if (timeline != nullptr) save_timeline(recorder.take(), timeline, {.title = "async_mlp_extended"});
    std::size_t right = 0;
    for (std::size_t b = 0; b < batches; ++b) right += print(b, outcomes[b]) ? 1 : 0;
    std::printf("%zu of %zu batches completed\n", right, batches);
    return right == batches - 1 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
    return run(count > 1 ? arguments[1] : nullptr);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "async_mlp_extended: %s\n", failure.what());
    return 1;
}
