// SPDX-License-Identifier: Apache-2.0
// The pipeline of async_mlp_extended: a network with a softmax at the end, and several batches in flight, of which one
// fails on purpose in host code. All sizes come from the weights.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sluice/async/task.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

namespace async_mlp_extended {

using namespace sluice;

inline constexpr std::size_t broken_batch = 2;

// Any trivially copyable function object is a kernel: this one fills a tensor with small numbers.
struct fill_weights {
    SLUICE_KERNEL void operator()(index_1d at, unsigned seed, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) {
            const unsigned mixed = (static_cast<unsigned>(at.value()) * 2654435761u + seed) >> 16;
            *element = (static_cast<float>(mixed % 2001) - 1000.f) * 2e-5f;
        }
    }
};

inline auto make_tensor(const shape& of, unsigned seed) {
    return uninitialized<float>(of).and_then(
        [seed](tensor<float> x) { return launch(fill_weights{}, each_of(x), seed, std::move(x)); });
}

// Host code in the middle of the pipeline: it runs in stream order and receives the data.
inline std::vector<float> inspect(std::size_t batch, std::vector<float> rows) {
    if (batch == broken_batch) throw std::runtime_error("batch " + std::to_string(batch) + " fails on purpose");
    return rows;
}

inline auto forward(std::size_t batch, const shared_tensor<float>& w0, const shared_tensor<float>& w1) {
    return named("batch " + std::to_string(batch),
                 make_tensor(w0->shape(), static_cast<unsigned>(batch))
                     .and_then([w0](tensor<float> x) { return gemm(std::move(x), w0); })
                     .and_then(relu)
                     .and_then([w1](tensor<float> hidden) { return gemm(std::move(hidden), w1); })
                     .and_then(softmax)
                     .and_then(download)
                     .and_then([batch](auto landed) {
                         return host_call([batch](std::vector<float> rows) { return inspect(batch, std::move(rows)); },
                                          std::move(landed));
                     }));
}

inline std::pair<shared_tensor<float>, shared_tensor<float>> make_weights(std::size_t dim, std::size_t classes,
                                                                          scheduling_policy& pool) {
    auto [first, second] = sync(zip(make_tensor({dim, dim}, 17), make_tensor({dim, classes}, 42)), pool);
    return {shared_tensor<float>(std::move(first)), shared_tensor<float>(std::move(second))};
}

// The outcome of a batch: its rows, or the reason why there are none.
struct outcome {
    std::vector<float> rows;
    std::string failure;
    friend bool operator==(const outcome&, const outcome&) = default;
};

using batch_future = device_future<pending<std::vector<float>>>;

// Awaits one batch: a value, an error of the device, or an exception of the code in the pipeline.
inline task<outcome> report(batch_future running) {
    outcome told;
    try {
        told.rows = co_await std::move(running);
    } catch (const device_error& error) {
        told.failure = std::string("the device failed: ") + error.what();
    } catch (const std::exception& error) {
        told.failure = std::string("an exception: ") + error.what();
    }
    co_return told;
}

// Starts all batches, each on a stream of its own, before it awaits the first.
inline task<std::vector<outcome>> run_batches(std::size_t batches, shared_tensor<float> w0, shared_tensor<float> w1,
                                              scheduling_policy& pool) {
    std::vector<batch_future> running;
    for (std::size_t b = 0; b < batches; ++b) running.push_back(spawn(forward(b, w0, w1), pool));
    std::vector<outcome> outcomes;
    for (batch_future& each : running) {
        auto reported = report(std::move(each));
        outcome told = co_await std::move(reported);
        outcomes.push_back(std::move(told));
    }
    co_return outcomes;
}

}  // namespace async_mlp_extended
