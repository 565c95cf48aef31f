// SPDX-License-Identifier: Apache-2.0
// A partition has tiles of one size: no choice is left among tile kernels that write it.
#include <sluice/kernels/one_of.hpp>
#include <sluice/kernels/tile_kernels.hpp>

void make(sluice::tensor<float> a, sluice::tensor<float> b, sluice::tensor<float> c) {
    const sluice::one_of<sluice::gemm_tiles<float, 16, 16, 8>, sluice::gemm_tiles<float, 32, 32, 8>> kernels;
#ifdef SLUICE_EXPECT_OK
    static_cast<void>(sluice::launch(kernels, std::move(a), std::move(b), std::move(c)));
#else
    static_cast<void>(sluice::launch(kernels, std::move(a), std::move(b), std::move(c).partition({16, 16})));
#endif
}
