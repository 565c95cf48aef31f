// SPDX-License-Identifier: Apache-2.0
#include "sluice/mdspan.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

using vector = ::cuda::std::mdspan<const float, ::cuda::std::dextents<std::size_t, 1>>;

struct negated {
    SLUICE_KERNEL void operator()(index_1d at, vector x, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) *element = -x(at.value());
    }
};

auto use(shared_tensor<float> x, tensor<float> y) {
#ifdef SLUICE_EXPECT_OK
    return launch(negated{}, std::move(x), std::move(y));
#else
    return launch(negated{}, as_mdspan<vector>(x), std::move(y));
#endif
}
