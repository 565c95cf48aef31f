// SPDX-License-Identifier: Apache-2.0
#include "sluice/mdspan.hpp"

using namespace sluice;

#ifdef SLUICE_EXPECT_OK
using layout = ::cuda::std::layout_right;
#else
using layout = ::cuda::std::layout_left;
#endif
using matrix = ::cuda::std::mdspan<float, ::cuda::std::dextents<std::size_t, 2>, layout>;

std::span<float> all(matrix of) { return elements_of(of); }
