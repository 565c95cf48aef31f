// SPDX-License-Identifier: Apache-2.0
// What a step of an image batch does last with each element: its curve, then its bounds.
#pragma once

#include <cmath>

#include "kernels/channels_last/image_program.hpp"

#include "sluice/base/kernel.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {
inline namespace SLUICE_LAUNCH_ABI {

SLUICE_KERNEL inline float curved(const image_curve& curve, float x) {
    float made = x;
    switch (curve.kind) {
        case image_curve_kind::none: return x;
        case image_curve_kind::same: break;
#if defined(__CUDA_ARCH__)
        case image_curve_kind::sigmoid: made = __fdividef(1.0f, 1.0f + __expf(-curve.slope * x)); break;
#else
        case image_curve_kind::sigmoid: made = 1.0f / (1.0f + std::exp(-curve.slope * x)); break;
#endif
        case image_curve_kind::hard_sigmoid:
            made = curve.slope * x + curve.offset;
            made = made < 0.0f ? 0.0f : made;  // NaN stays
            made = made > 1.0f ? 1.0f : made;
            break;
        case image_curve_kind::tanh: made = tanhf(x); break;
        case image_curve_kind::leaky: made = x < 0.0f ? curve.slope * x : x; break;
        case image_curve_kind::gelu: made = activated<activation::gelu>(x); break;
    }
    return curve.times_input ? made * x : made;
}

struct step_end {
    image_curve curve;
    bool has_bounds;
    float least, most;

    // The bounds are as fmax and fmin would, but NaN stays.
    SLUICE_KERNEL float operator()(float x) const {
        x = curved(curve, x);
        if (!has_bounds) return x;
        x = x < least ? least : x;
        return x > most ? most : x;
    }
};

inline step_end end_of(const image_step& step) { return {step.curve, step.has_bounds, step.least, step.most}; }

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::kernels
