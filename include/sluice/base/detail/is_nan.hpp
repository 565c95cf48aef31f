// SPDX-License-Identifier: Apache-2.0
// is_nan: whether a number is NaN, in kernels too, and for types of this project (half) and integers, of which std has
// no isnan.
#pragma once

#include "sluice/base/kernel.hpp"

namespace sluice::detail {

template <typename Number>
SLUICE_KERNEL constexpr bool is_nan(const Number& x) {
    return x != x;  // NOLINT(misc-redundant-expression): only NaN differs from itself
}

}  // namespace sluice::detail
