// SPDX-License-Identifier: Apache-2.0
// The activation functions that a layer may end with.
//
// Of NaN every one of them is NaN. Of infinities: relu and gelu of +infinity are +infinity; relu of -infinity is 0 and
// gelu of it NaN; sigmoid and tanh have their limits; softmax of a row with +infinity is NaN. So it is on every device,
// whichever kernel or library computes it.
#pragma once

#include <optional>
#include <string_view>

namespace sluice {

// What is applied to each element; softmax to each row. `none` changes nothing, and tanh is the hyperbolic tangent.
enum class activation {
    none,
    relu,     // max(x, 0); NaN stays NaN
    gelu,     // x * Phi(x), the exact form: x/2 * (1 + erf(x / sqrt(2)))
    sigmoid,  // 1 / (1 + exp(-x))
    tanh,
    softmax,  // over the last dimension, numerically stable
};

// The lower-case name: "relu". Costs O(1).
std::string_view to_string(activation value) noexcept;
// The reverse; "identity" and "linear" also name `none`. Empty when the name is unknown. Costs O(1).
std::optional<activation> activation_from_string(std::string_view name) noexcept;

}  // namespace sluice
