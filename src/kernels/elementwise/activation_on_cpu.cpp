// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/activation_on_cpu.hpp"

#include "kernels/elementwise/vector_math.hpp"

namespace sluice::kernels {

void activate_on_cpu(std::span<float> x, activation after) noexcept {
    const vector_math& math = vector_math_of_this_processor();
    switch (after) {
        case activation::none:
        case activation::softmax: return;
        case activation::relu: return rectify_on_cpu(x);
        case activation::gelu: return math.gelu(x.data(), x.data(), x.size());
        case activation::sigmoid: return math.sigmoid(x.data(), x.data(), x.size());
        case activation::tanh: return math.hyperbolic_tangent(x.data(), x.data(), x.size());
    }
}

}  // namespace sluice::kernels
