// SPDX-License-Identifier: Apache-2.0
// clamp(x, low, high): each element of an f32 tensor at least `low` and at most `high`, in place. NaN stays NaN.
// Errors, before anything is submitted: errc::invalid_argument unless low <= high.
#pragma once

#include "sluice/kernels/in_place.hpp"

namespace sluice {

namespace detail {
void clamp(stream on, tensor<float>& x, const source_location& location, float low, float high);
}
inline constexpr in_place<&detail::clamp> clamp;

}  // namespace sluice
