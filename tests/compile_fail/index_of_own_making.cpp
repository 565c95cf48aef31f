// SPDX-License-Identifier: Apache-2.0
// Only the launcher creates indices, so no kernel can claim an element that belongs to another index.
#include <sluice/sluice.hpp>

struct kernel {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::disjoint_view<int> x) const {
#ifdef SLUICE_EXPECT_OK
        if (int* const e = x.at(at)) *e = 1;
    }
#else
        static_cast<void>(at);
        if (int* const e = x.at(sluice::index_1d(0))) *e = 1;
    }
#endif
};
