// SPDX-License-Identifier: Apache-2.0
// Elementwise operations on f32 tensors, in place: activate, relu, gelu, sigmoid, tanh and clamp; and full, which makes
// a tensor. NaN stays NaN. activation.hpp has the formulas; in_place.hpp says how the operations are called: relu(on,
// x), relu(std::move(x)), .and_then(relu).
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "sluice/base/source_location.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/clamp.hpp"
#include "sluice/kernels/in_place.hpp"
#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {
void activate(stream on, tensor<float>& x, const source_location& location, activation what);

template <activation What>
void activate_as(stream on, tensor<float>& x, const source_location& location) {
    activate(on, x, location, What);
}
}  // namespace detail

// Any activation, activate(x, what); `none` submits nothing.
inline constexpr in_place<&detail::activate> activate;
// One of them.
inline constexpr in_place<&detail::activate_as<activation::relu>> relu;
inline constexpr in_place<&detail::activate_as<activation::gelu>> gelu;        // see activation::gelu
inline constexpr in_place<&detail::activate_as<activation::sigmoid>> sigmoid;  // see activation::sigmoid
// A function, since an object would hide tanh(double) of <math.h> from code with `using namespace sluice`. With
// and_then: .and_then(activate(activation::tanh)). Submitting it costs one command.
inline auto tanh(tensor<float> x, const source_location& location = source_location::current()) {
    return activate(std::move(x), activation::tanh, location);
}

// The plain form of full: every element of x, of 1, 2, 4 or 8 bytes, becomes the one at `value`. The name, in traces
// and errors, is of characters that live for ever. Costs one command.
void fill_elements(stream on, storage& x, std::size_t count, const void* value, std::size_t element_bytes,
                   source_location location = source_location::current(), std::string_view name = "full");

template <typename T>
class full_operation : public operation_base<full_operation<T>> {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

public:
    using output = tensor<T>;

    full_operation(const shape& shape, T value, source_location location)
        : shape_(shape), value_(value), location_(location) {}

    output submit(execution_context& context) && {
        once_.use("full");
        tensor<T> out(context.stream(), shape_, {"full", {}, location_});
        fill_elements(context.stream(), *out.memory(), out.size(), &value_, sizeof(T), location_);
        return out;
    }
    work_estimate estimate() const { return {1, shape_.size() * sizeof(T)}; }

private:
    shape shape_;
    T value_;
    source_location location_;
    detail::single_use once_;
};

// A new device tensor, every element `value`. Submitting it costs the tensor and one command.
template <typename T>
auto full(const shape& shape, T value, source_location location = source_location::current()) {
    return full_operation<T>(shape, value, location);
}

}  // namespace sluice
