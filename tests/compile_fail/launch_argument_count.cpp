// SPDX-License-Identifier: Apache-2.0
// A launch has one argument for each of the kernel's parameters after the index.
#include <sluice/sluice.hpp>

struct add {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::view<const int> x, sluice::disjoint_view<int> y) const {
        if (int* const e = y.at(at)) *e += x[at.value()];
    }
};

void make(sluice::tensor<int> x, sluice::tensor<int> y) {
    const auto all = sluice::each_of(y);
#ifdef SLUICE_EXPECT_OK
    sluice::launch(add{}, all, std::move(x), std::move(y));
#else
    static_cast<void>(x);
    sluice::launch(add{}, all, std::move(y));
#endif
}
