// SPDX-License-Identifier: Apache-2.0
// gemm on Hopper: out = after(a * b + bias), a block makes one tile of the output after another.
//
// One warpgroup fills a ring of stages in shared memory, 128 bytes of the inner dimension each, by the copy engine; the
// others multiply, 64 rows of the tile each. The blocks of a cluster take tiles one below the other, and each brings
// its share of the columns' operand for all. While the last tile is stored, the ring fills for the next. Or the blocks
// of a cluster have parts of the inner dimension of one tile, and each brings the sums of some columns together.
//
// The kernel may start before those before it have ended: it waits before it reads a or bias, or writes.
//
// Shared memory: stages (rows of a, then those of b), 16 KiB to store from for each multiplying warpgroup, barriers.
// All swizzled by the tensor maps, so that neither side has bank conflicts.
#pragma once

#include <cstdint>

#include "kernels/gemm/activate_sums.cuh"
#include "kernels/gemm/gemm_wgmma_call.hpp"
#include "kernels/tensor_cores/warpgroup.cuh"
#include "kernels/tensor_cores/wgmma.cuh"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/mbarrier.hpp"

namespace sluice::kernels {

// A compiled tile. `Blocks`: that one multiprocessor holds at a time. Of `Cluster` and `Parts`, the parts of the inner
// dimension, one is 1.
template <int Rows, int Columns, int Stages, int Cluster, int Blocks, int Parts = 1>
struct gemm_tile {
    static_assert(Cluster == 1 || Parts == 1);
    static constexpr int rows = Rows, columns = Columns, stages = Stages, cluster = Cluster, blocks = Blocks;
    static constexpr int parts = Parts;
    static constexpr int groups = Rows / rows_of_group;  // that multiply
    static constexpr int threads = (groups + 1) * threads_of_group;
    static constexpr int pitch = 128;  // bytes of a row of an operand in a stage
    static constexpr int a_bytes = Rows * pitch;
    static constexpr int b_bytes = Columns * pitch;
    static constexpr int stage_bytes = a_bytes + b_bytes;
    static constexpr int box_bytes = rows_of_group * pitch;  // what is stored at a time
    static constexpr int boxes = 2;                          // of a warpgroup, in flight
    static constexpr int barriers = stages * stage_bytes + groups * boxes * box_bytes;
    static constexpr int blocks_of_part = Columns / 8 / Parts;  // of 8 columns, whose sums a block brings together
    static constexpr int row_bytes = groups * threads_of_group * 16;  // of such a block
    static_assert(Columns % (8 * Parts) == 0);
    static_assert((Parts - 1) * blocks_of_part * row_bytes <= stages * stage_bytes,
                  "sums of parts go where the stages were");
    static constexpr int shared_bytes = barriers + 2 * stages * static_cast<int>(sizeof(mbarrier));
};

// The tile of the output that comes `at`th, in units of a cluster's tiles.
struct gemm_place {
    unsigned row;
    unsigned column;
};
__device__ inline gemm_place place_of_tile(unsigned at, unsigned down, unsigned across, unsigned band) {
    const unsigned whole = band * across;
    const unsigned first = at / whole * band, within = at % whole;
    const unsigned height = min(band, down - first);
    return {first + within % height, within / height};
}

// Where in the ring a thread is.
template <int Stages>
struct ring_place {
    int stage = 0;
    unsigned parity = 0;

    __device__ void advance() {
        if (++stage < Stages) return;
        stage = 0;
        parity ^= 1;
    }
};

// This lane's elements of the bias: two of each block of 8 columns. Zeros beyond the last.
template <typename T, int Blocks>
__device__ inline void load_bias(float (&bias)[Blocks][2], const void* from, unsigned column, unsigned columns) {
    const T* const all = static_cast<const T*>(from);
#pragma unroll
    for (int block = 0; block < Blocks; ++block) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const unsigned at = column + block * 8 + threadIdx.x % 4 * 2 + i;
            bias[block][i] = at < columns ? float{all[at]} : 0.0f;
        }
    }
}

// Each block of the cluster gets the sums of all for its share of the columns. All threads of all blocks that multiply
// call it, and those that fill call cluster_barrier() twice.
template <typename Tile, int Blocks>
__device__ inline void add_up_parts(float (&own)[Tile::blocks_of_part][4], const float (&d)[Blocks][4],
                                    unsigned char* stages, unsigned part) {
    constexpr int share = Tile::blocks_of_part;
    const unsigned place = threadIdx.x * 16;
    // Those of other parts are in their order.
    const auto place_of = [&](unsigned from, unsigned at) {
        return (from < at ? from : from - 1) * (share * Tile::row_bytes) + place;
    };
    __syncwarp();
    cluster_barrier();  // all stages have been read
#pragma unroll
    for (unsigned other = 0; other < Tile::parts; ++other) {
        if (other == part) continue;
        const std::uint32_t there = address_in_block(stages, other) + place_of(part, other);
#pragma unroll
        for (int block = 0; block < share; ++block)
            store_there(there + block * Tile::row_bytes, d[other * share + block]);
    }
    cluster_barrier();
#pragma unroll
    for (int block = 0; block < share; ++block) {
#pragma unroll
        for (float& each : own[block]) each = 0;
    }
    // In the order of the parts: the sums have the same bits wherever they are brought together.
#pragma unroll
    for (unsigned from = 0; from < Tile::parts; ++from) {
#pragma unroll
        for (int block = 0; block < share; ++block) {
            if (from == part) {
#pragma unroll
                for (int i = 0; i < 4; ++i) own[block][i] += d[from * share + block][i];
                continue;
            }
            const auto four = *reinterpret_cast<const float4*>(stages + place_of(from, part) + block * Tile::row_bytes);
            own[block][0] += four.x;
            own[block][1] += four.y;
            own[block][2] += four.z;
            own[block][3] += four.w;
        }
    }
}

// Bias, activation and the way to memory of a few columns, two neighbours of a row at a time. (Their number is even:
// see gemm_fits_hopper.)
template <typename T, int Blocks>
__device__ inline void finish_part(float (&d)[Blocks][4], const gemm_wgmma_call& all, unsigned row, unsigned column) {
    if (all.bias != nullptr) {
        float bias[Blocks][2];
        load_bias<T>(bias, all.bias, column, all.columns);
#pragma unroll
        for (int block = 0; block < Blocks; ++block) {
#pragma unroll
            for (int i = 0; i < 4; ++i) d[block][i] += bias[block][i % 2];
        }
    }
    activate_sums(d, all.after);
    T* const to = static_cast<T*>(all.to);
#pragma unroll
    for (int block = 0; block < Blocks; ++block) {
        const unsigned at = column + block * 8 + threadIdx.x % 4 * 2;
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            const unsigned of_row = row + threadIdx.x % threads_of_group / 32 * 16 + threadIdx.x % 32 / 4 + lower * 8;
            if (of_row >= all.rows || at >= all.columns) continue;
            T* const two = to + std::size_t{of_row} * all.columns + at;
            if constexpr (sizeof(T) == 2) {
                *reinterpret_cast<std::uint32_t*>(two) =
                    rounded<T, false>(d[block][2 * lower], d[block][2 * lower + 1]);
            } else {
                *reinterpret_cast<float2*>(two) = {d[block][2 * lower], d[block][2 * lower + 1]};
            }
        }
    }
}

// 64 rows of 128 bytes, as the map of the output has its box. `d`: this warp's 16 rows.
template <typename T, int Blocks>
__device__ inline void write_box(unsigned char* box, const float (&d)[Blocks][4]) {
    const unsigned lane = threadIdx.x % 32, warp_row = threadIdx.x % threads_of_group / 32 * 16;
    if constexpr (sizeof(T) == 2) {
        const unsigned row = warp_row + lane % 16;
        const auto line = static_cast<std::uint32_t>(__cvta_generic_to_shared(box)) + row * 128;
#pragma unroll
        for (int block = 0; block < Blocks; block += 2) {
            const unsigned piece = (block + lane / 16) ^ (row % 8);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(line + piece * 16),
                         "r"(rounded<T, false>(d[block][0], d[block][1])),
                         "r"(rounded<T, false>(d[block][2], d[block][3])),
                         "r"(rounded<T, false>(d[block + 1][0], d[block + 1][1])),
                         "r"(rounded<T, false>(d[block + 1][2], d[block + 1][3]))
                         : "memory");
        }
    } else {
#pragma unroll
        for (int block = 0; block < Blocks; ++block) {
#pragma unroll
            for (int lower = 0; lower < 2; ++lower) {
                const unsigned row = warp_row + lower * 8 + lane / 4, column = block * 8 + lane % 4 * 2;
                const unsigned piece = (column / 4) ^ (row % 8);
                *reinterpret_cast<float2*>(box + row * 128 + piece * 16 + column % 4 * 4) = {d[block][2 * lower],
                                                                                             d[block][2 * lower + 1]};
            }
        }
    }
}

// Bias, activation and the way to memory, 128 bytes of each row at a time.
template <typename T, typename Tile, int Blocks>
__device__ inline void finish_tile(float (&d)[Blocks][4], const gemm_wgmma_call& all, unsigned char* boxes, int row,
                                   int column, unsigned group) {
    constexpr int columns_of_box = Tile::pitch / sizeof(T), blocks_of_box = columns_of_box / 8;
    constexpr int boxes_of_tile = Blocks / blocks_of_box;
    // A place in shared memory is that of the same boxes in every tile, so a narrow tile has but one.
    constexpr int under_way = boxes_of_tile < Tile::boxes ? boxes_of_tile : Tile::boxes;
    const bool tells = threadIdx.x % threads_of_group == 0;
#pragma unroll
    for (int box = 0; box < boxes_of_tile; ++box) {
        unsigned char* const staged = boxes + box % under_way * Tile::box_bytes;
        auto& part = reinterpret_cast<float(&)[blocks_of_box][4]>(d[box * blocks_of_box]);
        if (all.bias != nullptr) {
            float bias[blocks_of_box][2];
            load_bias<T>(bias, all.bias, column + box * columns_of_box, all.columns);
#pragma unroll
            for (int block = 0; block < blocks_of_box; ++block) {
#pragma unroll
                for (int i = 0; i < 4; ++i) part[block][i] += bias[block][i % 2];
            }
        }
        activate_sums(part, all.after);
        if (tells) wait_for_stores_to_read<under_way - 1>();
        group_barrier(group);  // the box is free
        write_box<T>(staged, part);
        publish_tile();
        group_barrier(group);
        if (tells) store_tile(&all.out, row, column + box * columns_of_box, staged);
    }
}

template <typename T, typename Tile, bool AlongColumns>  // b is [inner, columns] instead of [columns, inner]
__global__ void __cluster_dims__(Tile::cluster* Tile::parts, 1, 1) __launch_bounds__(Tile::threads, Tile::blocks)
    gemm_wgmma(const __grid_constant__ gemm_wgmma_call all) {
    constexpr int stages = Tile::stages, cluster = Tile::cluster, parts = Tile::parts, groups = Tile::groups;
    constexpr int inner_of_stage = Tile::pitch / sizeof(T);
    extern __shared__ __align__(1024) unsigned char shared[];
    auto* const filled = reinterpret_cast<mbarrier*>(shared + Tile::barriers);
    mbarrier* const emptied = filled + stages;

    dependency_trigger();
    const unsigned block = cluster > 1 ? block_in_cluster() : 0;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; ++stage) {
            filled[stage].init(1);
            emptied[stage].init(groups * cluster);
        }
        mbarrier::publish_inits();
    }
    if constexpr (cluster > 1) {
        cluster_barrier();
    } else {
        __syncthreads();
    }

    const unsigned down = (all.rows + Tile::rows * cluster - 1) / (Tile::rows * cluster);
    const unsigned across = (all.columns + Tile::columns - 1) / Tile::columns;
    const unsigned all_rounds = (all.inner + inner_of_stage - 1) / inner_of_stage;
    // This block's: all, or a part.
    const unsigned part = parts > 1 ? block_in_cluster() : 0;
    const unsigned first_round = all_rounds * part / parts, rounds = all_rounds * (part + 1) / parts - first_round;
    const unsigned first = blockIdx.x / (cluster * parts), stride = gridDim.x / (cluster * parts);
    const unsigned group = group_of_thread();
    // With 128 accumulators a thread, the multiplying warpgroups need the filling one's registers.
    constexpr bool moves_registers = Tile::columns == 256 && groups == 2;

    if (group == groups) {
        if constexpr (moves_registers) give_up_registers<40>();
        if (threadIdx.x % threads_of_group == 0) {
            ring_place<stages> at;
            const auto fill_b = [&](mbarrier& arrival, unsigned char* b, int column, int k) {
                if constexpr (AlongColumns) {
                    constexpr int columns_of_box = Tile::pitch / sizeof(T), box_bytes = inner_of_stage * Tile::pitch;
                    constexpr int boxes = Tile::columns / columns_of_box / cluster;
#pragma unroll
                    for (int i = 0; i < boxes; ++i) {
                        const int box = block * boxes + i, from = column + box * columns_of_box;
                        if constexpr (cluster > 1) {
                            arrival.copy_tile_to((1 << cluster) - 1, b + box * box_bytes, &all.b, k, from);
                        } else {
                            arrival.copy_tile(b + box * box_bytes, &all.b, k, from);
                        }
                    }
                } else if constexpr (cluster > 1) {
                    const int share = block * (Tile::columns / cluster);
                    arrival.copy_tile_to((1 << cluster) - 1, b + share * Tile::pitch, &all.b, column + share, k);
                } else {
                    arrival.copy_tile(b, &all.b, column, k);
                }
            };
            // What may be read at once.
            const unsigned ahead = all.b_is_there ? min(rounds, static_cast<unsigned>(stages)) : 0;
            if (ahead != 0 && first < down * across) {
                const int column = place_of_tile(first, down, across, all.band).column * Tile::columns;
                for (unsigned round = 0; round < ahead; ++round) {
                    filled[round].arrive_expecting(Tile::stage_bytes);
                    fill_b(filled[round], shared + round * Tile::stage_bytes + Tile::a_bytes, column,
                           (first_round + round) * inner_of_stage);
                }
            }
            dependency_wait();
            for (unsigned tile = first; tile < down * across; tile += stride) {
                const gemm_place place = place_of_tile(tile, down, across, all.band);
                const int row = (place.row * cluster + block) * Tile::rows, column = place.column * Tile::columns;
                for (unsigned round = 0; round < rounds; ++round, at.advance()) {
                    emptied[at.stage].wait(at.parity ^ 1);  // the first turn finds all stages empty
                    mbarrier& arrival = filled[at.stage];
                    const bool has_b = tile == first && round < ahead;
                    if (!has_b) arrival.arrive_expecting(Tile::stage_bytes);
                    unsigned char* const a = shared + at.stage * Tile::stage_bytes;
                    const int k = (first_round + round) * inner_of_stage;
                    arrival.copy_tile(a, &all.a, row, k);
                    if (!has_b) fill_b(arrival, a + Tile::a_bytes, column, k);
                }
            }
        }
        __syncwarp();
        if constexpr (parts > 1) {  // see add_up_parts
            cluster_barrier();
            cluster_barrier();
        }
    } else {
        if constexpr (moves_registers) take_registers<232>();
        dependency_wait();  // the results go where kernels before this one may still read
        constexpr unsigned steps = 4, a_step = 32 / 16, b_step = (AlongColumns ? 16 * Tile::pitch : 32) / 16;
        const std::uint64_t first_a = swizzled_operand(shared + group * Tile::box_bytes);
        const std::uint64_t first_b =
            swizzled_operand(shared + Tile::a_bytes, AlongColumns ? inner_of_stage * Tile::pitch : 16);
        unsigned char* const boxes = shared + stages * Tile::stage_bytes + group * (Tile::boxes * Tile::box_bytes);
        const unsigned lane_of_group = threadIdx.x % threads_of_group;
        const auto release = [&](int stage) {
            if (lane_of_group >= cluster) return;
            if constexpr (cluster > 1) {
                emptied[stage].arrive_at(lane_of_group);
            } else {
                emptied[stage].arrive();
            }
        };

        float d[Tile::columns / 8][4] = {};
        ring_place<stages> at;
        for (unsigned tile = first; tile < down * across; tile += stride) {
            const gemm_place place = place_of_tile(tile, down, across, all.band);
            int before = 0;
            for (unsigned round = 0; round < rounds; ++round) {
                filled[at.stage].wait(at.parity);
                const std::uint64_t a = first_a + at.stage * (Tile::stage_bytes / 16);
                const std::uint64_t b = first_b + at.stage * (Tile::stage_bytes / 16);
                wgmma_begin();
#pragma unroll
                for (unsigned step = 0; step < steps; ++step) {
                    wgmma<T, AlongColumns>(d, a + step * a_step, b + step * b_step, round + step > 0);
                }
                wgmma_commit();
                if (round > 0) {
                    wgmma_wait<1>();
                    release(before);
                }
                before = at.stage;
                at.advance();
            }
            wgmma_wait<0>();
            wgmma_hold(d);
            if constexpr (parts > 1) {
                float own[Tile::blocks_of_part][4];
                add_up_parts<Tile>(own, d, shared, part);
                finish_part<T>(own, all, place.row * Tile::rows + group * rows_of_group,
                               place.column * Tile::columns + part * (Tile::blocks_of_part * 8));
                break;  // (a block has a part of one tile)
            }
            release(before);
            finish_tile<T, Tile>(d, all, boxes, (place.row * cluster + block) * Tile::rows + group * rows_of_group,
                                 place.column * Tile::columns, group);
        }
        if (lane_of_group == 0) wait_for_stores_to_read<0>();
        __syncwarp();
    }
    // No block leaves while other blocks of the cluster still copy here or arrive at barriers here.
    if constexpr (cluster > 1) cluster_barrier();
}

}  // namespace sluice::kernels
