// SPDX-License-Identifier: Apache-2.0
// gemm with Hopper's own instructions: the tiles that are compiled. The file is compiled for sm_90a alone, and the
// kernels run nowhere else.
#pragma once

#include <span>
#include <string_view>

#include "kernels/gemm/gemm_dispatch.hpp"
#include "kernels/gemm/gemm_wgmma_call.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::kernels {

struct hopper_tile {
    std::string_view name;  // "128x256 in pairs"; also what a table of measurements calls it
    unsigned rows;
    unsigned columns;
    unsigned cluster;  // blocks, one below the other
    unsigned parts;    // of the inner dimension, one for each block of a cluster
    unsigned blocks;   // that a multiprocessor holds
    unsigned threads;
    std::size_t shared_bytes;
    // By type (tf32, f16, bf16), and whether b is transposed; null where there is none.
    const void* kernels[3][2];
};

std::span<const hopper_tile> hopper_tiles() noexcept;

// Whether the copy engine can take these matrices (rows of a multiple of 16 bytes), and the kernels these types.
bool gemm_fits_hopper(const gemm_problem& problem) noexcept;

// The launch, all but the closure; and the closure.
launch_command gemm_on_hopper(const gemm_call& call, const device_properties& gpu, gemm_wgmma_call& closure);

}  // namespace sluice::kernels
