// The activations of one number, for code of both sides. softmax is none of them.
#pragma once

#include <cmath>

#include "sluice/kernels/activation.hpp"
#include "sluice/runtime/kernel.hpp"

namespace sluice::kernels {

SLUICE_KERNEL inline float activated(float x, activation what) {
    switch (what) {
        case activation::relu: return x < 0 ? 0 : x;
        case activation::gelu: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
        case activation::sigmoid: return 1.0f / (1.0f + expf(-x));
        case activation::tanh: return tanhf(x);
        case activation::none:
        case activation::softmax: break;
    }
    return x;
}

}  // namespace sluice::kernels
