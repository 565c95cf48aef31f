// SPDX-License-Identifier: Apache-2.0
// quantize and dequantize: what is done to an element; whole_tensor.hpp does the rest.
#include "sluice/kernels/quantize.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/kernels/whole_tensor.hpp"

namespace sluice {
namespace {

template <typename To>
struct scaled_element {
    float factor;
    template <typename From>
    SLUICE_KERNEL To operator()(From x) const {
        const float scaled = static_cast<float>(x) * factor;
        if constexpr (detail::eight_bit_element<To>) {
            return kernels::rounded_to_8_bits<To>(scaled);
        } else {
            return To(scaled);
        }
    }
};

template <typename From, typename To>
void launch_scaled(stream on, const tensor<From>& x, float factor, float scale, tensor<To>& out,
                   const error_context& context) {
    if (x.shape() != out.shape()) {
        throw error(errc::shape_mismatch, to_string(x.shape()) + " into " + to_string(out.shape()), context);
    }
    if (!(scale > 0) || !std::isfinite(scale) || !std::isfinite(factor)) {
        char text[32];
        std::snprintf(text, sizeof(text), "%g", double{scale});
        throw error(errc::invalid_argument,
                    std::string("the scale is ") + text + "; it must be positive, and it and 1 / scale finite",
                    context);
    }
    using closure = kernels::whole_tensor<scaled_element<To>, To, From, 1>;
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{out.memory(), access_mode::write}};
    kernels::launch_whole_tensor(on, {context.operation, accesses, context.location},
                                 closure{x.size(), out.device_data(), {x.device_data()}, {factor}});
}

}  // namespace

template <detail::wide_element From, detail::eight_bit_element To>
void quantize(stream on, const tensor<From>& x, float scale, tensor<To>& out, source_location location) {
    launch_scaled(on, x, 1 / scale, scale, out, {"quantize", on.owner().name(), location});
}

template <detail::eight_bit_element From, detail::wide_element To>
void dequantize(stream on, const tensor<From>& x, float scale, tensor<To>& out, source_location location) {
    launch_scaled(on, x, scale, scale, out, {"dequantize", on.owner().name(), location});
}

#define SLUICE_BETWEEN(wide, eight)                                                              \
    template void quantize(stream, const tensor<wide>&, float, tensor<eight>&, source_location); \
    template void dequantize(stream, const tensor<eight>&, float, tensor<wide>&, source_location);
SLUICE_BETWEEN(float, f8_e4m3)
SLUICE_BETWEEN(half, f8_e4m3)
SLUICE_BETWEEN(bfloat16, f8_e4m3)
SLUICE_BETWEEN(float, std::int8_t)
SLUICE_BETWEEN(half, std::int8_t)
SLUICE_BETWEEN(bfloat16, std::int8_t)
#undef SLUICE_BETWEEN

}  // namespace sluice
