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

// The same product by tiles: the threads of a block load a tile of a and a tile of b into shared memory, and then each
// thread reads them 16 times. Each element is summed in the same order, so the digits are the same.
struct sgemm_tiled {
    static constexpr unsigned side = 16;
    struct tiles {
        float a[side][side], b[side][side], sum[side][side];
    };

    SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<tiles> shared, float alpha,
                                  matrix_view<const float> a, matrix_view<const float> b, float beta,
                                  disjoint_matrix<float> c) const {
        tiles& all = *block.data(shared);
        block.for_each_thread([&](const block_thread& t) { all.sum[t.y()][t.x()] = 0; });
        for (std::size_t first = 0; first < a.columns(); first += side) {
            block.for_each_thread([&](const block_thread& t) {
                const std::size_t row = t.at().row(), column = t.at().column();
                const std::size_t left = first + t.x(), top = first + t.y();
                all.a[t.y()][t.x()] = row < a.rows() && left < a.columns() ? a(row, left) : 0;
                all.b[t.y()][t.x()] = top < b.rows() && column < b.columns() ? b(top, column) : 0;
            });
            block.sync();
            block.for_each_thread([&](const block_thread& t) {
                for (unsigned k = 0; k < side && first + k < a.columns(); ++k)
                    all.sum[t.y()][t.x()] += all.a[t.y()][k] * all.b[k][t.x()];
            });
            block.sync();
        }
        block.for_each_thread([&](const block_thread& t) {
            if (float* element = c.at(t.at())) *element = alpha * all.sum[t.y()][t.x()] + beta * *element;
        });
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

// Which kernel computes the hidden layer: one of the two above, or gemm, the library's own.
enum class product { naive, tiled, library };

inline any_operation<tensor<float>> multiply(product how, tensor<float> a, shared_tensor<float> b, tensor<float> c) {
    if (how == product::library) return gemm(std::move(a), std::move(b));
    if (how == product::naive)
        return launch(sgemm_naive{}, each_of(c), 1.f, std::move(a), std::move(b), 0.f, std::move(c));
    constexpr unsigned side = sgemm_tiled::side;
    const auto tiles_in = [](std::size_t extent) { return static_cast<unsigned>((extent + side - 1) / side); };
    const auto range = blocks({tiles_in(c.columns()), tiles_in(c.rows())}, {side, side});
    return launch(sgemm_tiled{}, range, shared_memory<sgemm_tiled::tiles>(1), 1.f, std::move(a), std::move(b), 0.f,
                  std::move(c));
}

// The whole network, as one lazy operation. Nothing runs until it is submitted.
inline auto forward(std::vector<float> batch, shared_tensor<float> w0, shared_tensor<float> w1,
                    product how = product::naive) {
    return zip(upload(std::move(batch), w0->shape()), zeros<float>(w0->shape()), zeros<float>(w1->shape()))
        .and_then([=](auto input, auto hidden, auto output) {
            return zip(multiply(how, std::move(input), w0, std::move(hidden)), value(std::move(output)));
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

// Describes one batch. Nothing has run yet; it holds the weights by reference.
inline forward_operation describe_batch(std::size_t number, const shared_tensor<float>& w0,
                                        const shared_tensor<float>& w1, product how = product::naive) {
    return forward(make(w0->size(), [number](std::size_t i) { return float((i + 37 * number) % 13) * 0.1f; }), w0, w1,
                   how);
}

// The given number of batches.
inline std::vector<forward_operation> describe(std::size_t batches, const shared_tensor<float>& w0,
                                               const shared_tensor<float>& w1, product how = product::naive) {
    std::vector<forward_operation> described;
    for (std::size_t b = 0; b < batches; ++b) described.push_back(describe_batch(b, w0, w1, how));
    return described;
}

// Starts all batches, each on a stream of its own. Waits for none of them.
using running_batches = std::vector<device_future<pending<std::vector<float>>>>;
inline running_batches launch_all(std::vector<forward_operation> described, scheduling_policy& pool) {
    running_batches running;
    for (auto& batch : described) running.push_back(spawn(std::move(batch), pool));
    return running;
}

// Awaits the batches in their order.
inline task<std::vector<std::vector<float>>> outputs_of(running_batches running) {
    std::vector<std::vector<float>> outputs;
    for (auto& each : running) {
        std::vector<float> output = co_await std::move(each);
        outputs.push_back(std::move(output));
    }
    co_return outputs;
}

}  // namespace async_mlp
