// SPDX-License-Identifier: Apache-2.0
// quantize, dequantize: tensors of floating point numbers as elements of 8 bits with one scale, and back.
//
//     op.and_then(quantize<f8_e4m3>(scale))     // q = round(x * (1 / scale))
//     op.and_then(dequantize<float>(scale))     // y = q * scale
//
// Elements of 8 bits are f8_e4m3 or std::int8_t, the others float, half or bfloat16. Rounding is to nearest even.
// Numbers beyond the range become its nearest end: 448 and -448, or 127 and -128. NaN stays NaN; as std::int8_t it is
// 0. 1 / scale and the products are floats. On every device the same, bit for bit.
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes differ; errc::invalid_argument for a scale
// that is not positive, not finite, or so small that 1 / scale is not finite. No elements: nothing is submitted.
//
// All functions here take constant time: they submit one command, or return an operation that does and allocates its
// output.
#pragma once

#include <concepts>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/detail/eight_bits.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
template <typename T>
concept wide_element = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

template <typename X>
concept wide_operand = operand<X> && wide_element<element_of<X>>;
template <typename X>
concept eight_bit_operand = operand<X> && eight_bit_element<element_of<X>>;
}  // namespace detail

// The plain forms: one command on a stream. They do not block.
template <detail::wide_element From, detail::eight_bit_element To>
void quantize(stream on, const tensor<From>& x, float scale, tensor<To>& out,
              source_location location = source_location::current());
// The same for out = x * scale.
template <detail::eight_bit_element From, detail::wide_element To>
void dequantize(stream on, const tensor<From>& x, float scale, tensor<To>& out,
                source_location location = source_location::current());

template <typename To, detail::operand X>
class quantize_operation : public operation_base<quantize_operation<To, X>> {
public:
    using output = tensor<To>;

    quantize_operation(X x, float scale, source_location location)
        : x_(std::move(x)), scale_(scale), location_(location) {}

    output submit(execution_context& context) && {
        const bool narrows = detail::eight_bit_element<To>;
        tensor<To> out(context.stream(), detail::read(x_).shape(),
                       {narrows ? "quantize" : "dequantize", {}, location_});
        if constexpr (detail::eight_bit_element<To>) {
            quantize(context.stream(), detail::read(x_), scale_, out, location_);
        } else {
            dequantize(context.stream(), detail::read(x_), scale_, out, location_);
        }
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    X x_;
    float scale_;
    source_location location_;
};

// The operations: their output is a new tensor; x, a tensor or a shared one, is released after them.
template <detail::eight_bit_element To, detail::wide_operand X>
auto quantize(X x, float scale, source_location location = source_location::current()) {
    return quantize_operation<To, X>(std::move(x), scale, location);
}
// The same for dequantize<float>(x, scale).
template <detail::wide_element To, detail::eight_bit_operand X>
auto dequantize(X x, float scale, source_location location = source_location::current()) {
    return quantize_operation<To, X>(std::move(x), scale, location);
}

// The functions of the tensor, for and_then.
template <detail::eight_bit_element To>
auto quantize(float scale, source_location location = source_location::current()) {
    return [=]<detail::wide_operand X>(X x) { return quantize_operation<To, X>(std::move(x), scale, location); };
}
// The same for dequantize.
template <detail::wide_element To>
auto dequantize(float scale, source_location location = source_location::current()) {
    return [=]<detail::eight_bit_operand X>(X x) { return quantize_operation<To, X>(std::move(x), scale, location); };
}

}  // namespace sluice
