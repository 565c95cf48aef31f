// SPDX-License-Identifier: Apache-2.0
// Of a matrix that is written, a block loads its own tile only: others are written meanwhile.
#include <sluice/kernels/tile_launch.hpp>

struct shift {
    SLUICE_KERNEL void operator()(const sluice::tile_block& at, sluice::tiles_of<float, 16, 16> x) const {
#ifdef SLUICE_EXPECT_OK
        x.store(at, x.load(at));
#else
        x.store(at, x.load(at.row() + 1, at.column()));
#endif
    }
};

void make(sluice::tensor<float> x) {
    const auto all = sluice::each_of(x);
    static_cast<void>(sluice::launch(shift{}, all, std::move(x)));
}
