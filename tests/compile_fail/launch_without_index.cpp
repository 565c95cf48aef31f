// SPDX-License-Identifier: Apache-2.0
// A kernel's first parameter is its index.
#include <sluice/sluice.hpp>

struct no_index {
    SLUICE_KERNEL void operator()(sluice::disjoint_view<int>) const {}
};
struct indexed {
    SLUICE_KERNEL void operator()(sluice::index_1d, sluice::disjoint_view<int>) const {}
};

void make(sluice::tensor<int> x) {
    const auto all = sluice::each_of(x);
#ifdef SLUICE_EXPECT_OK
    sluice::launch(indexed{}, all, std::move(x));
#else
    sluice::launch(no_index{}, all, std::move(x));
#endif
}
