// SPDX-License-Identifier: Apache-2.0
// Kernels that access one element beyond what they are given: by each type through which kernels access data. `line` is
// the line of the access.
#pragma once

#include "sluice/kernels/tile_launch.hpp"
#include "sluice/runtime/block_kernel.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/thread_grid.hpp"

namespace sluice::test_support {

// Views without the last element, row or column, which is read all the same. The memory is there.
struct reads_beyond_a_view {
    static constexpr unsigned line = __LINE__ + 3;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> out) const {
        const view<const float> shorter(x.data(), x.size() - 1);
        if (float* const element = out.at(at)) *element = shorter[at.value()];
    }
};
struct reads_beyond_the_rows {
    static constexpr unsigned line = __LINE__ + 3;
    SLUICE_KERNEL void operator()(index_2d at, matrix_view<const float> x, disjoint_matrix<float> out) const {
        const matrix_view<const float> shorter(x.data(), x.rows() - 1, x.columns());
        if (float* const element = out.at(at)) *element = shorter(at.row(), at.column());
    }
};
struct reads_beyond_the_columns {
    static constexpr unsigned line = __LINE__ + 3;
    SLUICE_KERNEL void operator()(index_2d at, matrix_view<const float> x, disjoint_matrix<float> out) const {
        const matrix_view<const float> narrower(x.data(), x.rows(), x.columns() - 1);
        if (float* const element = out.at(at)) *element = narrower(at.row(), at.column());
    }
};
struct reads_below_a_view {
    static constexpr unsigned line = __LINE__ + 2;
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> out) const {
        if (float* const element = out.at(at)) *element = x[static_cast<int>(at.value()) - 1];
    }
};

struct writes_beyond_the_rows_of_a_tile {
    static constexpr unsigned line = __LINE__ + 3;
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<float> x) const {
        const tile_view<float> tile = x.at(at);
        tile(tile.rows(), 0) = 1;
    }
};
struct writes_beyond_the_columns_of_a_tile {
    static constexpr unsigned line = __LINE__ + 3;
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<float> x) const {
        const tile_view<float> tile = x.at(at);
        tile(0, tile.columns()) = 1;
    }
};

struct writes_beyond_shared_memory {
    static constexpr unsigned line = __LINE__ + 4;
    SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<float> shared,
                                  disjoint_blocks<float> out) const {
        const block_part<float> part = block.part(shared);
        block.for_each_thread([&](const block_thread& t) { part[t.index() + 1] = 1; });
        block.for_each_thread([&](const block_thread& t) { out.part(block)[t.index()] = part[0]; });
    }
};
struct writes_beyond_a_part {
    static constexpr unsigned line = __LINE__ + 4;
    SLUICE_KERNEL void operator()(const thread_block& block, shared_memory<float> shared,
                                  disjoint_blocks<float> out) const {
        block.part(shared)[0] = 1;
        block.for_each_thread([&](const block_thread& t) { out.part(block)[t.index() + 1] = 1; });
    }
};

struct reaches_beyond_a_cluster {
    static constexpr unsigned line = __LINE__ + 4;
    SLUICE_KERNEL void operator()(const block_cluster& cluster, shared_memory<float> shared,
                                  disjoint_blocks<float> out) const {
        cluster.for_each_block([&](const thread_block& block) {
            const block_part<float> next = cluster.part(shared, cluster.rank(block) + 1);
            block.for_each_thread([&](const block_thread& t) { out.part(block)[t.index()] = next[0]; });
        });
    }
};
struct writes_beyond_a_grid_memory {
    static constexpr unsigned line = __LINE__ + 4;
    SLUICE_KERNEL void operator()(const thread_grid& grid, shared_memory<float>, grid_memory<float> out) const {
        grid.for_each_block([&](const thread_block& block) {
            const block_part<float> all = grid.part(out);
            block.for_each_thread([&](const block_thread& t) { all[t.flat().value() + 1] = 1; });
        });
    }
};

struct loads_beyond_a_matrix {
    tiles_of<const float, 4, 4> x;
    tiles_of<float, 4, 4> out;

    static constexpr unsigned line = __LINE__ + 1;
    SLUICE_KERNEL void operator()(const tile_block& at) const { out.store(at, x.load(at.row() + 1, at.column())); }
};
struct loads_beyond_a_batch {
    static constexpr unsigned line = __LINE__ + 3;
    SLUICE_KERNEL void operator()(const tile_block& at, batch_tiles_of<const float, 4, 4> x,
                                  batch_tiles_of<float, 4, 4> out) const {
        out.store(at, x.matrix(at.batch() + 1).load(at));
    }
};
struct reads_beyond_a_tile {
    tiles_of<const float, 4, 4> x;
    tiles_of<float, 4, 4> out;

    static constexpr unsigned line = __LINE__ + 4;
    SLUICE_KERNEL void operator()(const tile_block& at) const {
        auto tile = x.load(at.row(), at.column());
        const int all = decltype(tile)::spread::count + static_cast<int>(at.row());
        tile[0] = tile[all];
        out.store(at, tile);
    }
};

}  // namespace sluice::test_support
