// SPDX-License-Identifier: Apache-2.0
// What is shared is immutable: a kernel cannot write it.
#include <sluice/sluice.hpp>

struct add {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::view<const int> x, sluice::disjoint_view<int> y) const {
        if (int* const e = y.at(at)) *e += x[at.value()];
    }
};

void make(sluice::tensor<int> x, sluice::tensor<int> y, sluice::shared_tensor<int> shared) {
    const auto all = sluice::each_of(y);
#ifdef SLUICE_EXPECT_OK
    static_cast<void>(x);
    sluice::launch(add{}, all, shared, std::move(y));
#else
    sluice::launch(add{}, all, std::move(x), shared);
#endif
}
