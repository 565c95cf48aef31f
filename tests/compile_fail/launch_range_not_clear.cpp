// SPDX-License-Identifier: Apache-2.0
// A kernel that writes several arguments needs a range.
#include <sluice/sluice.hpp>

struct split {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::disjoint_view<int> x,
                                  sluice::disjoint_view<int> y) const {
        if (int* const e = x.at(at)) *e = 1;
        if (int* const e = y.at(at)) *e = 2;
    }
};

void make() {
    auto x = sluice::zeros<int>({4}), y = sluice::zeros<int>({4});
#ifdef SLUICE_EXPECT_OK
    sluice::launch(split{}, sluice::each_of(sluice::shape{4}), std::move(x), std::move(y));
#else
    sluice::launch(split{}, std::move(x), std::move(y));
#endif
}
