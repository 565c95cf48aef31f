// SPDX-License-Identifier: Apache-2.0
#include "network_by_hand.hpp"
#include "support/kernels_by_hand.cuh"

namespace sluice::bench {

void copy_by_kernel(void* to, const void* from, std::size_t bytes, CUstream_st* on) {
    enqueue_copy_by_hand(to, from, (bytes + sizeof(uint4) - 1) / sizeof(uint4) * sizeof(uint4), on);
}

}  // namespace sluice::bench
