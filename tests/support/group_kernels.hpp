// SPDX-License-Identifier: Apache-2.0
// Kernels whose blocks work together, in clusters or all of them.
#pragma once

#include <cstddef>

#include "sluice/runtime/block_kernel.hpp"

namespace sluice::test_support {

// part[0] becomes the sum of the part, which has an element for each thread: a power of two.
SLUICE_KERNEL inline void add_up(const thread_block& block, const block_part<float>& part) {
    for (unsigned half = block.threads() / 2; half != 0; half /= 2) {
        block.sync();
        block.for_each_thread([&](const block_thread& t) {
            if (t.index() < half) part[t.index()] += part[t.index() + half];
        });
    }
    block.sync();
}

// out, of each block: the sum of all elements of x but those that the block has added up itself.
struct sum_of_the_others {
    SLUICE_KERNEL void operator()(const thread_grid& grid, shared_memory<float> shared, view<const float> x,
                                  grid_memory<float> sums, disjoint_blocks<float> out) const {
        const block_part<float> all = grid.part(sums);
        const std::size_t threads = grid.blocks() * grid.threads();
        grid.for_each_block([&](const thread_block& block) {
            const block_part<float> part = block.part(shared);
            block.for_each_thread([&](const block_thread& t) {
                float sum = 0;
                for (std::size_t i = t.flat().value(); i < x.size(); i += threads) sum += x[i];
                part[t.index()] = sum;
            });
            add_up(block, part);
            block.for_each_thread([&](const block_thread& t) {
                if (t.index() == 0) all[block.index()] = part[0];
            });
        });
        grid.sync();
        grid.for_each_block([&](const thread_block& block) {
            block.for_each_thread([&](const block_thread& t) {
                if (t.index() != 0) return;
                float sum = 0;
                for (std::size_t i = 0; i < all.size(); ++i) sum += all[i];
                out.part(block)[0] = sum - block.part(shared)[0];
            });
        });
    }
};

// In each round each block takes the number of the next block and adds one. `numbers` has two for each block: those of
// even rounds, then those of odd rounds.
struct passed_on {
    SLUICE_KERNEL void operator()(const thread_grid& grid, grid_memory<unsigned> numbers, unsigned rounds) const {
        const block_part<unsigned> all = grid.part(numbers);
        const std::size_t count = grid.blocks();
        for (unsigned round = 0; round < rounds; ++round) {
            const std::size_t from = round % 2 * count, to = count - from;
            grid.for_each_block([&](const thread_block& block) {
                block.for_each_thread([&](const block_thread& t) {
                    if (t.index() == 0) all[to + block.index()] = all[from + (block.index() + 1) % count] + 1;
                });
            });
            grid.sync();
        }
    }
};

// out, of each block: the sum of the elements of its cluster, each of which has a thread.
struct cluster_sums {
    SLUICE_KERNEL void operator()(const block_cluster& cluster, shared_memory<float> shared, view<const float> x,
                                  disjoint_blocks<float> out) const {
        cluster.for_each_block([&](const thread_block& block) {
            const block_part<float> part = block.part(shared);
            block.for_each_thread([&](const block_thread& t) {
                const std::size_t i = t.flat().value();
                part[t.index()] = i < x.size() ? x[i] : 0;
            });
            add_up(block, part);
        });
        cluster.sync();
        cluster.for_each_block([&](const thread_block& block) {
            block.for_each_thread([&](const block_thread& t) {
                if (t.index() != 0) return;
                float sum = 0;
                for (unsigned rank = 0; rank < cluster.blocks(); ++rank) sum += cluster.part(shared, rank)[0];
                out.part(block)[0] = sum;
            });
        });
    }
};

// Each block writes its number to the shared memory of the next block of its cluster, before any sync. out, of each
// block: what it has received; the number and the position of its cluster; its rank.
struct to_the_next {
    SLUICE_KERNEL void operator()(const block_cluster& cluster, shared_memory<unsigned> shared,
                                  disjoint_blocks<unsigned> out) const {
        cluster.for_each_block([&](const thread_block& block) {
            const unsigned next = (cluster.rank(block) + 1) % cluster.blocks();
            block.for_each_thread([&](const block_thread& t) {
                cluster.part(shared, next)[t.index()] = static_cast<unsigned>(block.index()) + t.index();
            });
        });
        cluster.sync();
        cluster.for_each_block([&](const thread_block& block) {
            block.for_each_thread([&](const block_thread& t) {
                if (t.index() != 0) return;
                const block_part<unsigned> received = block.part(shared), told = out.part(block);
                told[0] = received[0] * 1000 + received[received.size() - 1];
                told[1] = static_cast<unsigned>(cluster.index());
                told[2] = cluster.position().x + 10 * cluster.position().y + 100 * cluster.position().z;
                told[3] = cluster.rank(block);
            });
        });
    }
};

// The mistakes that a CPU device finds.
struct waits_inside_blocks {
    SLUICE_KERNEL void operator()(const thread_grid& grid, grid_memory<unsigned>) const {
        grid.for_each_block([&](const thread_block&) { grid.sync(); });
    }
};
struct waits_inside_blocks_of_a_cluster {
    SLUICE_KERNEL void operator()(const block_cluster& cluster, disjoint_blocks<unsigned>) const {
        cluster.for_each_block([&](const thread_block&) { cluster.sync(); });
    }
};
struct nests_blocks {
    SLUICE_KERNEL void operator()(const thread_grid& grid, grid_memory<unsigned>) const {
        grid.for_each_block([&](const thread_block&) { grid.for_each_block([](const thread_block&) {}); });
    }
};

}  // namespace sluice::test_support
