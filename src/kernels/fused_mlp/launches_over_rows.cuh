// SPDX-License-Identifier: Apache-2.0
// Grids and blocks of the kernels of fused_mlp and quantized_mlp whose warps or warpgroups go through the rows. The
// caller adds the kernel and its shared memory.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/tensor_cores/warpgroup.cuh"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::kernels {

// Each warp of a block takes 16 rows. Two blocks fit on a multiprocessor.
inline launch_command warps_over_rows(std::size_t rows, std::size_t warps, const device_properties& gpu) {
    const std::size_t rows_of_block = 16 * warps;
    launch_command made;
    made.grid.x = static_cast<unsigned>(std::min<std::size_t>((rows + rows_of_block - 1) / rows_of_block,
                                                              2 * static_cast<std::size_t>(gpu.compute_units)));
    made.block.x = static_cast<unsigned>(32 * warps);
    return made;
}

// Each warpgroup takes tiles of rows_of_group rows. One block fits on a multiprocessor; it has no more warpgroups than
// there are tiles for it.
inline launch_command warpgroups_over_rows(std::size_t rows, std::size_t most_groups, const device_properties& gpu) {
    const std::size_t tiles = (rows + rows_of_group - 1) / rows_of_group;
    const std::size_t blocks = std::min<std::size_t>(tiles, static_cast<std::size_t>(gpu.compute_units));
    launch_command made;
    made.grid.x = static_cast<unsigned>(blocks);
    made.block.x =
        static_cast<unsigned>(threads_of_group * std::min<std::size_t>(most_groups, (tiles + blocks - 1) / blocks));
    return made;
}

}  // namespace sluice::kernels
