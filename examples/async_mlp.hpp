// SPDX-License-Identifier: Apache-2.0
// The pipeline of async_mlp: kernels, the network as a lazy operation, and several batches of it in flight. All sizes
// come from the weights.
#pragma once

#include <utility>
#include <vector>

#include "sluice/async/task.hpp"
#include "sluice/sluice.hpp"

namespace async_mlp {

using namespace sluice;

// Each thread computes one element of c: c = alpha * a * b + beta * c. (Built without fused multiply-add, so that a GPU
// and a CPU round in the same way and print the same.)
struct sgemm_naive {
    SLUICE_KERNEL void operator()(index_2d at, float alpha, matrix_view<const float> a, matrix_view<const float> b,
                                  float beta, disjoint_matrix<float> c) const {
        if (float* element = c.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.row(), k) * b(k, at.column());
            *element = alpha * sum + beta * *element;
        }
    }
};

struct matvec_naive {
    SLUICE_KERNEL void operator()(index_1d at, matrix_view<const float> a, view<const float> x,
                                  disjoint_view<float> y) const {
        if (float* element = y.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.value(), k) * x[k];
            *element = sum;
        }
    }
};

struct relu {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element = *element < 0 ? 0 : *element;
    }
};

// The whole network, as one lazy operation. Nothing runs until it is submitted.
inline auto forward(std::vector<float> batch, shared_tensor<float> w0, shared_tensor<float> w1) {
    return zip(upload(std::move(batch), w0->shape()), zeros<float>(w0->shape()), zeros<float>(w1->shape()))
        .and_then([=](auto input, auto hidden, auto output) {
            return zip(launch(sgemm_naive{}, each_of(hidden), 1.f, std::move(input), w0, 0.f, std::move(hidden)),
                       value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(matvec_naive{}, each_of(output), std::move(hidden), w1, std::move(output));
        })
        .and_then([](auto output) { return launch(relu{}, each_of(output), std::move(output)); })
        .and_then(download);
}
using weight = shared_tensor<float>;
using forward_operation = decltype(forward({}, std::declval<weight>(), std::declval<weight>()));

template <typename Function>
std::vector<float> make(std::size_t size, Function element) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = element(i);
    return values;
}

// Uploads the weights once. They are shared: every batch reads them, and they are freed after the last reader.
inline std::pair<shared_tensor<float>, shared_tensor<float>> upload_weights(std::size_t dim, scheduling_policy& pool) {
    auto [first, second] =
        sync(zip(upload(make(dim * dim, [](std::size_t i) { return (float(i % 7) - 3) * 0.01f; }), {dim, dim}),
                 upload(make(dim, [](std::size_t i) { return (float(i % 5) - 2) * 0.01f; }), {dim})),
             pool);
    return {shared_tensor<float>(std::move(first)), shared_tensor<float>(std::move(second))};
}

// Describes the given number of batches. Nothing has run yet; each holds the weights by reference.
inline std::vector<forward_operation> describe(std::size_t batches, const shared_tensor<float>& w0,
                                               const shared_tensor<float>& w1) {
    std::vector<forward_operation> described;
    for (std::size_t b = 0; b < batches; ++b) {
        described.push_back(
            forward(make(w0->size(), [b](std::size_t i) { return float((i + 37 * b) % 13) * 0.1f; }), w0, w1));
    }
    return described;
}

// Starts all batches, each on a stream of its own, before it awaits the first.
inline task<std::vector<std::vector<float>>> run_all(std::vector<forward_operation> described,
                                                     scheduling_policy& pool) {
    std::vector<device_future<pending<std::vector<float>>>> running;
    for (auto& batch : described) running.push_back(spawn(std::move(batch), pool));
    std::vector<std::vector<float>> outputs;
    for (auto& each : running) {
        std::vector<float> output = co_await std::move(each);
        outputs.push_back(std::move(output));
    }
    co_return outputs;
}

}  // namespace async_mlp
