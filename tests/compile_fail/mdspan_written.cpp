// SPDX-License-Identifier: Apache-2.0
#include "sluice/mdspan.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

#ifdef SLUICE_EXPECT_OK
using element = const float;
#else
using element = float;
#endif
using matrix = ::cuda::std::mdspan<element, ::cuda::std::dextents<std::size_t, 2>>;

struct sums {
    SLUICE_KERNEL void operator()(index_1d at, matrix x, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = x(at.value(), 0) + x(at.value(), 1);
    }
};

auto use(tensor<float> x, tensor<float> y) { return launch(sums{}, each_of(y), std::move(x), std::move(y)); }
