// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/activation.hpp"

namespace sluice {

std::string_view to_string(activation value) noexcept {
    switch (value) {
        case activation::none: return "none";
        case activation::relu: return "relu";
        case activation::gelu: return "gelu";
        case activation::sigmoid: return "sigmoid";
        case activation::tanh: return "tanh";
        case activation::softmax: return "softmax";
    }
    return "unknown";
}

std::optional<activation> activation_from_string(std::string_view name) noexcept {
    for (const activation value : {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                   activation::tanh, activation::softmax}) {
        if (name == to_string(value)) return value;
    }
    if (name == "identity" || name == "linear") return activation::none;
    return std::nullopt;
}

}  // namespace sluice
