// SPDX-License-Identifier: Apache-2.0
// Of a batch that is written, a block reaches the matrix of its own tile only.
#include <sluice/kernels/tile_launch.hpp>

struct shift {
    SLUICE_KERNEL void operator()(const sluice::tile_block& at, sluice::batch_tiles_of<float, 16, 16> x) const {
#ifdef SLUICE_EXPECT_OK
        x.store(at, x.matrix(at).load(at));
#else
        x.store(at, x.matrix(at.batch() + 1).load(at));
#endif
    }
};

void make(sluice::tensor<float> x) {
    const auto all = sluice::each_of(x);
    static_cast<void>(sluice::launch(shift{}, all, std::move(x)));
}
