// SPDX-License-Identifier: Apache-2.0
// A view of ints does not take floats.
#include <sluice/sluice.hpp>

struct add {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::view<const int> x, sluice::disjoint_view<int> y) const {
        if (int* const e = y.at(at)) *e += x[at.value()];
    }
};

void make(sluice::tensor<float> floats, sluice::tensor<int> x, sluice::tensor<int> y) {
    const auto all = sluice::each_of(y);
#ifdef SLUICE_EXPECT_OK
    static_cast<void>(floats);
    sluice::launch(add{}, all, std::move(x), std::move(y));
#else
    static_cast<void>(x);
    sluice::launch(add{}, all, std::move(floats), std::move(y));
#endif
}
