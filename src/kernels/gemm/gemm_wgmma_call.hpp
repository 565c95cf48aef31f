// SPDX-License-Identifier: Apache-2.0
// What the kernels of gemm_wgmma.cuh take.
#pragma once

#include <cuda.h>

#include "sluice/kernels/activation.hpp"

namespace sluice::kernels {

// The maps' boxes are those of the kernel's tile.
struct gemm_wgmma_call {
    CUtensorMap a;
    CUtensorMap b;
    CUtensorMap out;
    void* to;          // what `out` describes
    const void* bias;  // or null
    unsigned rows;
    unsigned columns;
    unsigned inner;
    unsigned band;  // tiles that are taken one below the other before the next column, for L2
    activation after;
    // The kernels before this one do not write b: its first stages are filled before they have ended.
    bool b_is_there;
};

}  // namespace sluice::kernels
