// SPDX-License-Identifier: Apache-2.0
// The kernels of a choice do the same: they write the same arguments.
#include <sluice/kernels/one_of.hpp>

struct writes_x {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::disjoint_view<float> x,
                                  sluice::view<const float> y) const {
        if (float* const element = x.at(at)) *element = y[0];
    }
};
#ifdef SLUICE_EXPECT_OK
struct the_other {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::disjoint_view<float> x,
                                  sluice::view<const float> y) const {
        if (float* const element = x.at(at)) *element = y[0];
    }
};
#else
struct the_other {
    SLUICE_KERNEL void operator()(sluice::index_1d at, sluice::view<const float> x,
                                  sluice::disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = x[0];
    }
};
#endif

void make(sluice::tensor<float> x, sluice::tensor<float> y) {
    const auto all = sluice::each_of(x);
    static_cast<void>(sluice::launch(sluice::one_of<writes_x, the_other>(), all, std::move(x), std::move(y)));
}
