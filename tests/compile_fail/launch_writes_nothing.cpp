// SPDX-License-Identifier: Apache-2.0
// A kernel that writes nothing is refused.
#include <sluice/sluice.hpp>

struct useless {
    SLUICE_KERNEL void operator()(sluice::index_1d, sluice::view<const int>) const {}
};
struct useful {
    SLUICE_KERNEL void operator()(sluice::index_1d, sluice::disjoint_view<int>) const {}
};

void make(sluice::tensor<int> x) {
    const auto all = sluice::each_of(x);
#ifdef SLUICE_EXPECT_OK
    sluice::launch(useful{}, all, std::move(x));
#else
    sluice::launch(useless{}, all, std::move(x));
#endif
}
