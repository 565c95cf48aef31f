// SPDX-License-Identifier: Apache-2.0
// The pipeline of data_parallel_mlp: one network on several devices, one batch on each. All sizes come from the
// weights.
//
// Each block of threads owns a tile of each output, and no two blocks get the same: the kernels work with tiles as if
// these were numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/async/when_all.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/kernels/tile_launch.hpp"
#include "sluice/sluice.hpp"

namespace data_parallel_mlp {

using namespace sluice;

inline constexpr int side = 8;  // of a tile

using matrix_tiles = tiles_of<const float, side, side>;
using vector_tiles = vector_tiles_of<const float, side>;

// c = a * b. (Built without fused multiply-add, so that a GPU and a CPU round in the same way and print the same.)
struct multiply_tiles {
    SLUICE_KERNEL void operator()(const tile_block& at, matrix_tiles a, matrix_tiles b,
                                  tiles_of<float, side, side> c) const {
        accumulator<float, side, side> sum;
        for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.row(), k), b.load(k, at.column()), sum);
        c.store(at, sum);
    }
};

// y = a * x
struct multiply_by_vector {
    SLUICE_KERNEL void operator()(const tile_block& at, matrix_tiles a, vector_tiles x,
                                  vector_tiles_of<float, side> y) const {
        accumulator<float, side, 1> sum;
        for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.index(), k), x.load_column(k), sum);
        y.store(at, sum);
    }
};

// x = max(x, 0)
struct rectify_tiles {
    SLUICE_KERNEL void operator()(const tile_block& at, vector_tiles_of<float, side> x) const {
        x.store(at, max(x.load(at), 0.0f));
    }
};

// All three kernels in one: y = max(0, (a * b) * x), without storing a * b.
struct mlp_tiles {
    SLUICE_KERNEL void operator()(const tile_block& at, matrix_tiles a, matrix_tiles b, vector_tiles x,
                                  vector_tiles_of<float, side> y) const {
        accumulator<float, side, 1> sum;
        for (unsigned j = 0; j < b.across(); ++j) {
            accumulator<float, side, side> hidden;
            for (unsigned k = 0; k < a.across(); ++k) mma(a.load(at.index(), k), b.load(k, j), hidden);
            mma(hidden.as_tile(), x.load_column(j), sum);
        }
        sum.replace([](int, int, float each) { return each < 0 ? 0 : each; });
        y.store(at, sum);
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

// Three kernels: [rows, dim] to [rows]. Each runs over the tiles of what it writes.
inline auto forward(tensor<float> batch, const weights& with) {
    const std::size_t rows = batch.rows(), dim = with.w1->size();
    return zip(value(std::move(batch)), new_tiles({rows, dim}, {side, side}), new_tiles({rows}, {side}))
        .and_then([=](auto x, auto hidden, auto output) {
            return zip(launch(multiply_tiles{}, each_of(hidden), std::move(x), with.w0, std::move(hidden)),
                       value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(multiply_by_vector{}, each_of(output), std::move(hidden), with.w1, std::move(output));
        })
        .and_then([](auto output) { return launch(rectify_tiles{}, each_of(output), std::move(output)); })
        .transform([](auto output) { return std::move(output).unpartition(); });
}

// One kernel.
inline auto forward_fused(tensor<float> batch, const weights& with) {
    const std::size_t rows = batch.rows();
    return zip(value(std::move(batch)), new_tiles({rows}, {side}))
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
