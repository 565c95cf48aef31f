// SPDX-License-Identifier: Apache-2.0
// softmax over the last dimension of an f32 tensor, in place: exp(x - max) / sum(exp(x - max)), so that large
// inputs do not overflow. A row with NaN becomes all NaN. Called as in_place.hpp says: softmax(on, x), which submits
// one command, softmax(std::move(x)), and .and_then(softmax).
#pragma once

#include "sluice/kernels/activation.hpp"  // its enumerator must not be declared after this name (-Wshadow of g++)
#include "sluice/kernels/in_place.hpp"

namespace sluice {

namespace detail {
void softmax(stream on, tensor<float>& x, const source_location& location);
}
inline constexpr in_place<&detail::softmax> softmax;

}  // namespace sluice
