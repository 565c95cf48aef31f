// async_mlp_extended: four batches of 1024 rows through a network with a softmax on top, at the same time, on four
// streams. One batch fails on purpose, in host code; the others do not notice. Nothing blocks but main, at the end.
//
//     async_mlp_extended [TIMELINE.svg]      also draws what ran when

#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

namespace {

constexpr std::size_t dim = 1024;
constexpr std::size_t classes = 64;
constexpr std::size_t batches = 4;
constexpr std::size_t broken_batch = 2;

// Any trivially copyable function object is a kernel: this one fills a tensor with small numbers.
struct fill_weights {
    SLUICE_KERNEL void operator()(index_1d at, unsigned seed, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) {
            const unsigned mixed = (static_cast<unsigned>(at.value()) * 2654435761u + seed) >> 16;
            *element = (static_cast<float>(mixed % 2001) - 1000.f) * 2e-5f;
        }
    }
};

auto make_tensor(const shape& of, unsigned seed) {
    return uninitialized<float>(of).and_then(
        [seed](tensor<float> x) { return launch(fill_weights{}, each_of(x), seed, std::move(x)); });
}

// Host code in the middle of the pipeline, in stream order, with the data.
std::vector<float> inspect(std::size_t batch, std::vector<float> rows) {
    if (batch == broken_batch) throw std::runtime_error("batch " + std::to_string(batch) + " fails on purpose");
    return rows;
}

auto forward(std::size_t batch, shared_tensor<float> w0, shared_tensor<float> w1) {
    return named("batch " + std::to_string(batch),
                 make_tensor({dim, dim}, static_cast<unsigned>(batch))
                     .and_then([w0](tensor<float> x) { return gemm(std::move(x), w0); })
                     .and_then([](tensor<float> hidden) { return relu(std::move(hidden)); })
                     .and_then([w1](tensor<float> hidden) { return gemm(std::move(hidden), w1); })
                     .and_then([](tensor<float> scores) { return softmax(std::move(scores)); })
                     .and_then(download)
                     .and_then([batch](auto landed) {
                         return host_call([batch](std::vector<float> rows) { return inspect(batch, std::move(rows)); },
                                          std::move(landed));
                     }));
}

bool sums_to_one(const std::vector<float>& rows) {
    for (std::size_t row = 0; row < rows.size() / classes; ++row) {
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += static_cast<double>(rows[row * classes + c]);
        if (!(std::abs(sum - 1) < 1e-4)) return false;
    }
    return !rows.empty();
}

using batch_future = device_future<pending<std::vector<float>>>;

// Awaits one batch: a value, an error of the device, or an exception of somebody's code.
task<bool> report(std::size_t batch, batch_future running) {
    try {
        const std::vector<float> rows = co_await std::move(running);
        const bool right = sums_to_one(rows);
        std::printf("batch %zu: %zu rows, probabilities %s\n", batch, rows.size() / classes,
                    right ? "sum to 1" : "DO NOT SUM TO 1");
        co_return right;
    } catch (const device_error& error) {
        std::printf("batch %zu: the device failed: %s\n", batch, error.what());
    } catch (const std::exception& error) {
        std::printf("batch %zu: an exception: %s\n", batch, error.what());
    }
    co_return false;
}

task<int> run_batches(round_robin& pool, shared_tensor<float> w0, shared_tensor<float> w1) {
    // All on their way, each on a stream of its own, before the first is awaited.
    std::vector<batch_future> running;
    for (std::size_t b = 0; b < batches; ++b) running.push_back(spawn(forward(b, w0, w1), pool));
    int right = 0;
    for (std::size_t b = 0; b < batches; ++b) {
        auto reported = report(b, std::move(running[b]));
        const bool is_right = co_await std::move(reported);
        if (is_right) ++right;
    }
    co_return right;
}

int run(const char* timeline) {
    trace_recorder recorder;
    runtime machine({.trace = timeline != nullptr ? &recorder : nullptr});
    round_robin pool(machine.default_device(), batches);
    auto [first, second] = sync(zip(make_tensor({dim, dim}, 17), make_tensor({dim, classes}, 42)), pool);
    const shared_tensor<float> w0(std::move(first));
    const shared_tensor<float> w1(std::move(second));
    if (timeline != nullptr) {
        // The first time, libraries load and pools fill: not what the picture is about.
        std::vector<batch_future> first_time;
        for (std::size_t b = 0; b < batches; ++b) first_time.push_back(spawn(forward(b, w0, w1), pool));
        for (batch_future& each : first_time) each.wait();
        recorder.take();
    }
    const int right = sync_wait(run_batches(pool, w0, w1));
    if (timeline != nullptr) save_timeline(recorder.take(), timeline, {.title = "async_mlp_extended"});
    std::printf("%d of %zu batches completed\n", right, batches);
    return right == static_cast<int>(batches) - 1 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
    return run(count > 1 ? arguments[1] : nullptr);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "async_mlp_extended: %s\n", failure.what());
    return 1;
}
