// SPDX-License-Identifier: Apache-2.0
// gemm on a GPU by tile kernels (kernels/tile.hpp): any shape and type, on sm_80 and later.
#pragma once

#include "kernels/gemm/gemm_dispatch.hpp"

namespace sluice::kernels {

// Room for what any of the kernels takes.
struct gemm_tiles_closure {
    alignas(16) unsigned char bytes[256];
};

// The launch; its closure is put into `closure`.
launch_command gemm_with_tiles(const gemm_call& call, gemm_tiles_closure& closure);

}  // namespace sluice::kernels
