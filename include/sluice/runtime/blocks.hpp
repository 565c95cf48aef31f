// SPDX-License-Identifier: Apache-2.0
// blocks: how many blocks of how many threads a launch has, for kernels that work in blocks (block_kernel.hpp) and for
// functions of modules (cuda/kernel_module.hpp).
//
// All functions here take constant time.
#pragma once

#include <cstddef>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice {

// The grid and the blocks of a launch, and the source line that requested it.
struct launch_blocks {
    launch_extent grid;             // blocks
    launch_extent block;            // threads of a block
    std::size_t shared_bytes = 0;   // dynamic shared memory of each block, for a function of a module
    source_location location = {};  // the line that an error names
    launch_extent cluster = {};     // in blocks
    bool cooperative = false;       // all blocks run at the same time and may wait for each other

    // Thread block clusters: that many blocks run at the same time and reach each other's shared memory. Along each
    // dimension the grid is a multiple of the cluster; device_properties::max_blocks_per_cluster is the limit. For
    // kernels that take a block_cluster, and for functions of modules.
    launch_blocks in_clusters_of(launch_extent blocks) const {
        launch_blocks made = *this;
        made.cluster = blocks;
        return made;
    }
    launch_blocks in_clusters_of(unsigned blocks) const { return in_clusters_of(launch_extent{blocks}); }
    // A cooperative launch of a module's function: all blocks run at the same time, so that they can wait for each
    // other. (Kernels that take a thread_grid are always launched so.)
    launch_blocks cooperatively() const {
        launch_blocks made = *this;
        made.cooperative = true;
        return made;
    }
};

// `grid` blocks of `block` threads, with dynamic shared memory for each block.
inline launch_blocks blocks(launch_extent grid, launch_extent block, std::size_t shared_bytes = 0,
                            source_location location = source_location::current()) {
    return {.grid = grid, .block = block, .shared_bytes = shared_bytes, .location = location};
}
inline launch_blocks blocks(unsigned grid, unsigned block, std::size_t shared_bytes = 0,
                            source_location location = source_location::current()) {
    return blocks(launch_extent{grid}, launch_extent{block}, shared_bytes, location);
}
// As many blocks as give each of `threads` indices a thread; the last block may have more. Throws
// errc::invalid_argument for blocks without threads and for more than 2^32 - 1 blocks.
launch_blocks blocks_over(std::size_t threads, unsigned block, std::size_t shared_bytes = 0,
                          source_location location = source_location::current());

}  // namespace sluice
