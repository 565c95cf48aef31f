// SPDX-License-Identifier: Apache-2.0
// blocks: how many blocks of how many threads a launch has, for kernels that work in blocks (block_kernel.hpp) and for
// functions of modules (cuda/kernel_module.hpp).
#pragma once

#include <cstddef>

#include "sluice/base/source_location.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice {

// The grid and the blocks of a launch, and the source line that requested it.
struct launch_blocks {
    launch_extent grid;
    launch_extent block;
    std::size_t shared_bytes = 0;  // dynamic shared memory of each block, for a function of a module
    source_location location = {};
};

// `grid` blocks of `block` threads, with dynamic shared memory for each block.
inline launch_blocks blocks(launch_extent grid, launch_extent block, std::size_t shared_bytes = 0,
                            source_location location = source_location::current()) {
    return {grid, block, shared_bytes, location};
}
inline launch_blocks blocks(unsigned grid, unsigned block, std::size_t shared_bytes = 0,
                            source_location location = source_location::current()) {
    return {{grid}, {block}, shared_bytes, location};
}
// As many blocks as give each of `threads` indices a thread; the last block may have more. Throws
// errc::invalid_argument for blocks without threads and for more than 2^32 - 1 blocks.
launch_blocks blocks_over(std::size_t threads, unsigned block, std::size_t shared_bytes = 0,
                          source_location location = source_location::current());

}  // namespace sluice
