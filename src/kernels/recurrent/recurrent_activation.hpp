// SPDX-License-Identifier: Apache-2.0
// The activations of RNN, GRU and LSTM, as an object that GPU kernels and CPU loops take.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice::kernels {

enum class recurrent_curve : std::uint32_t {
    relu,
    tanh,
    sigmoid,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus,
};

struct recurrent_activation {
    recurrent_curve what = recurrent_curve::tanh;
    float alpha = 0, beta = 0;
    float clip = 0;  // of the argument: in [-clip, clip]; 0 for none

    template <typename Number>
    SLUICE_KERNEL Number operator()(Number x) const {
        const Number a = static_cast<Number>(alpha), b = static_cast<Number>(beta), c = static_cast<Number>(clip);
        if (c > 0) x = x < -c ? -c : x > c ? c : x;
        switch (what) {
            case recurrent_curve::relu: return x < 0 ? 0 : x;
            case recurrent_curve::tanh: return std::tanh(x);
            case recurrent_curve::sigmoid: return 1 / (1 + std::exp(-x));
            case recurrent_curve::affine: return a * x + b;
            case recurrent_curve::leaky_relu: return x < 0 ? a * x : x;
            case recurrent_curve::thresholded_relu: return x < a ? 0 : x;
            case recurrent_curve::scaled_tanh: return a * std::tanh(b * x);
            case recurrent_curve::hard_sigmoid: {
                const Number line = a * x + b;
                return line < 0 ? 0 : line > 1 ? 1 : line;
            }
            case recurrent_curve::elu: return x < 0 ? a * std::expm1(x) : x;
            case recurrent_curve::softsign: return x / (1 + (x < 0 ? -x : x));
            case recurrent_curve::softplus: return (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x));
        }
        return x;
    }
};

}  // namespace sluice::kernels
