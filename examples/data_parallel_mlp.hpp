// SPDX-License-Identifier: Apache-2.0
// The pipeline of data_parallel_mlp: one network on several devices, one batch on each. All sizes come from the
// weights.
//
// Each thread owns a tile of each output: partitions assign the tiles, and no two threads get the same tile.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/async/when_all.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/sluice.hpp"

namespace data_parallel_mlp {

using namespace sluice;

inline constexpr std::size_t tile = 4;

// c = a * b. (Built without fused multiply-add, so that a GPU and a CPU round in the same way and print the same.)
struct gemm_tiles {
    SLUICE_KERNEL void operator()(tile_index at, matrix_view<const float> a, matrix_view<const float> b,
                                  disjoint_tiles<float> c) const {
        const auto mine = c.at(at);
        float sums[tile][tile] = {};
        for (std::size_t k = 0; k < a.columns(); ++k) {
            for (std::size_t i = 0; i < mine.rows(); ++i) {
                for (std::size_t j = 0; j < mine.columns(); ++j)
                    sums[i][j] += a(mine.first_row() + i, k) * b(k, mine.first_column() + j);
            }
        }
        for (std::size_t i = 0; i < mine.rows(); ++i) {
            for (std::size_t j = 0; j < mine.columns(); ++j) mine(i, j) = sums[i][j];
        }
    }
};

// y = a * x; y has one column.
struct matvec_tiles {
    SLUICE_KERNEL void operator()(tile_index at, matrix_view<const float> a, view<const float> x,
                                  disjoint_tiles<float> y) const {
        const auto mine = y.at(at);
        for (std::size_t i = 0; i < mine.rows(); ++i) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(mine.first_row() + i, k) * x[k];
            mine(i, 0) = sum;
        }
    }
};

struct relu_tiles {
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<float> x) const {
        const auto mine = x.at(at);
        for (std::size_t i = 0; i < mine.rows(); ++i) mine(i, 0) = mine(i, 0) < 0 ? 0 : mine(i, 0);
    }
};

// All three kernels in one: y = max(0, (a * b) * x), without storing a * b.
struct mlp_tiles {
    SLUICE_KERNEL void operator()(tile_index at, matrix_view<const float> a, matrix_view<const float> b,
                                  view<const float> x, disjoint_tiles<float> y) const {
        const auto mine = y.at(at);
        for (std::size_t i = 0; i < mine.rows(); ++i) {
            float sum = 0;
            for (std::size_t j = 0; j < b.columns(); ++j) {
                float hidden = 0;
                for (std::size_t k = 0; k < a.columns(); ++k) hidden += a(mine.first_row() + i, k) * b(k, j);
                sum += hidden * x[j];
            }
            mine(i, 0) = sum < 0 ? 0 : sum;
        }
    }
};

// A network's weights on one device.
struct weights {
    shared_tensor<float> w0;  // [dim, dim]
    shared_tensor<float> w1;  // [dim]
};

inline auto new_tiles(const shape& whole, const shape& each) {
    return uninitialized<float>(whole).transform([each](auto x) { return std::move(x).partition(each); });
}

// Three kernels: [rows, dim] to [rows, 1].
inline auto forward(tensor<float> batch, const weights& with) {
    const std::size_t rows = batch.rows(), dim = with.w1->size();
    return zip(value(std::move(batch)), new_tiles({rows, dim}, {tile, tile}), new_tiles({rows, 1}, {tile, 1}))
        .and_then([=](auto x, auto hidden, auto output) {
            return zip(launch(gemm_tiles{}, each_of(hidden), std::move(x), with.w0, std::move(hidden)),
                       value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(matvec_tiles{}, each_of(output), std::move(hidden), with.w1, std::move(output));
        })
        .and_then([](auto output) { return launch(relu_tiles{}, each_of(output), std::move(output)); })
        .transform([](auto output) { return std::move(output).unpartition(); });
}

// One kernel.
inline auto forward_fused(tensor<float> batch, const weights& with) {
    const std::size_t rows = batch.rows();
    return zip(value(std::move(batch)), new_tiles({rows, 1}, {tile, 1}))
        .and_then([=](auto x, auto output) {
            return launch(mlp_tiles{}, each_of(output), std::move(x), with.w0, with.w1, std::move(output));
        })
        .transform([](auto output) { return std::move(output).unpartition(); });
}

// The two as function objects, for code that takes either. (Named types, because g++ 12 warns of coroutines over
// lambdas.)
struct three_kernels {
    auto operator()(tensor<float> batch, const weights& with) const { return forward(std::move(batch), with); }
};
struct one_kernel {
    auto operator()(tensor<float> batch, const weights& with) const { return forward_fused(std::move(batch), with); }
};

// Creates the weights on the first device and replicates them to the others; all copies are awaited together.
inline task<std::vector<weights>> make_weights(std::size_t dim, const device_set& all, scheduling_policy& pool) {
    auto first = spawn(on_device(all[0], randn({dim, dim}, 1)).and_then(replicate(all)), pool);
    auto second = spawn(on_device(all[0], randn({dim}, 2)).and_then(replicate(all)), pool);
    auto both = when_all(std::move(first), std::move(second));
    auto [w0, w1] = co_await std::move(both);
    std::vector<weights> made;
    for (std::size_t i = 0; i < all.size(); ++i) made.push_back({w0[i], w1[i]});
    co_return made;
}

// Batch i, the same on any device, in place of real data.
inline auto make_batch(std::size_t dim, std::size_t number) { return randn({dim, dim}, 100 + number); }

// One batch per device; all are in flight before the first is awaited. The outputs are gathered on the first device.
template <typename Forward>
task<std::vector<float>> run_all(std::size_t dim, device_set all, round_robin_devices& pool, Forward network) {
    auto making = make_weights(dim, all, pool);
    const std::vector<weights> everywhere = co_await std::move(making);
    std::vector<device_future<tensor<float>>> running;
    for (std::size_t i = 0; i < all.size(); ++i) {
        running.push_back(spawn(make_batch(dim, i).and_then(
                                    [network, with = everywhere[i]](auto x) { return network(std::move(x), with); }),
                                pool.on(all[i])));
    }
    std::vector<tensor<float>> outputs;
    for (auto& each : running) {
        tensor<float> output = co_await std::move(each);
        outputs.push_back(std::move(output));
    }
    auto gathered = spawn(on_device(all[0], gather(std::move(outputs)).and_then(download)), pool);
    co_return co_await std::move(gathered);
}

// Batches from the host, several per device, each on a stream of its own: while one batch is computed, the next one's
// data is copied. The outputs come in the order of the batches.
inline task<std::vector<float>> run_overlapped(std::size_t dim, std::size_t each_device, device_set all,
                                               round_robin_devices& pool) {
    auto making = make_weights(dim, all, pool);
    const std::vector<weights> everywhere = co_await std::move(making);
    std::vector<device_future<pending<std::vector<float>>>> running;
    for (std::size_t batch = 0; batch < each_device * all.size(); ++batch) {
        const std::size_t i = batch % all.size();
        std::vector<float> rows(dim * dim);
        for (std::size_t j = 0; j < rows.size(); ++j)
            rows[j] = float((j * (batch + 5) + 37 * batch) % 13) * 0.1f - 0.6f;
        running.push_back(
            spawn(upload(std::move(rows), {dim, dim})
                      .and_then([with = everywhere[i]](auto x) { return forward_fused(std::move(x), with); })
                      .and_then(download),
                  pool.on(all[i])));
    }
    std::vector<float> outputs;
    for (auto& each : running) {
        const std::vector<float> output = co_await std::move(each);
        outputs.insert(outputs.end(), output.begin(), output.end());
    }
    co_return outputs;
}

// The memory that a batch needs in addition to its input and output, as a graph's plan reports it.
template <typename Forward>
std::size_t scratch_bytes(std::size_t dim, const weights& with, scheduling_policy& pool, Forward network) {
    return compile(
               pool, [=](tensor<float> x) { return network(std::move(x), with); }, device_input<float>({dim, dim}))
        .memory_bytes();
}

}  // namespace data_parallel_mlp
