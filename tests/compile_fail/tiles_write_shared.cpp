// SPDX-License-Identifier: Apache-2.0
// What is shared is immutable: a tile kernel cannot write it.
#include <sluice/kernels/tile_kernels.hpp>

void make(sluice::tensor<float> a, sluice::tensor<float> b, sluice::shared_tensor<float> shared) {
    const auto all = sluice::each_of(b);
    const sluice::gemm_tiles<float, 16, 16, 8> kernel;
#ifdef SLUICE_EXPECT_OK
    static_cast<void>(sluice::launch(kernel, all, shared, std::move(a), std::move(b)));
#else
    static_cast<void>(sluice::launch(kernel, all, std::move(a), std::move(b), shared));
#endif
}
