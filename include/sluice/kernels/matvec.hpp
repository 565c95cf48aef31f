// SPDX-License-Identifier: Apache-2.0
// matvec: a layer for one to eight rows at a time, where the weights are all there is to read:
//
//     out[rows, out features] = after(x[rows, in features] * weight^T + bias)
//
//     matvec(x, weight)                            // an operation
//     op.and_then(matvec(weight, bias))            // the same for the output of another operation
//
// On a GPU each weight is read once, 16 bytes a thread, and used for all rows. Elements are half, bfloat16 or float;
// sums are float; over no in features they are 0. NaN and infinities propagate. After other kernels it starts early
// (programmatic dependent launch). Measured on an H200 (bf16, 4096 x 4096): 1.5 times cuBLASLt's rate for one row, 1.35
// for two, but 0.97 for four and 0.66 for eight.
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes do not fit together;
// errc::invalid_argument for no or more than eight rows, an output that is an operand, and softmax.
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

inline constexpr std::size_t most_matvec_rows = 8;  // rows of x; more are errc::invalid_argument

namespace detail {
template <typename T>
concept matvec_element = std::same_as<T, half> || std::same_as<T, bfloat16> || std::same_as<T, float>;
}

// The plain form: one command on a stream. weight is [out features, in features], bias has `out features` elements or
// is null. Does not block. Costs one command.
template <detail::matvec_element T>
void matvec(stream on, const tensor<T>& x, const tensor<T>& weight, std::type_identity_t<const tensor<T>*> bias,
            tensor<T>& out, activation after = activation::none, source_location location = source_location::current());

template <detail::matvec_element T>
class matvec_operation : public operation_base<matvec_operation<T>> {
public:
    using output = tensor<T>;

    matvec_operation(tensor<T> x, shared_tensor<T> weight, std::optional<shared_tensor<T>> bias, activation after,
                     source_location location)
        : x_(std::move(x)), weight_(std::move(weight)), bias_(std::move(bias)), after_(after), location_(location) {}

    output submit(execution_context& context) && {
        tensor<T> out(context.stream(), {x_.rows(), weight_->rows()}, {"matvec", {}, location_});
        matvec(context.stream(), x_, *weight_, bias_ ? &**bias_ : nullptr, out, after_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    tensor<T> x_;
    shared_tensor<T> weight_;
    std::optional<shared_tensor<T>> bias_;
    activation after_;
    source_location location_;
};

// The operation: its output is a new tensor; x is released after it. Submitting it costs a new tensor and one command.
template <detail::matvec_element T>
auto matvec(tensor<T> x, shared_tensor<T> weight, std::optional<shared_tensor<T>> bias = std::nullopt,
            activation after = activation::none, source_location location = source_location::current()) {
    return matvec_operation<T>(std::move(x), std::move(weight), std::move(bias), after, location);
}
// The function of x, for and_then. It costs what the operation costs.
template <detail::matvec_element T>
auto matvec(shared_tensor<T> weight, std::type_identity_t<std::optional<shared_tensor<T>>> bias = std::nullopt,
            activation after = activation::none, source_location location = source_location::current()) {
    return [=](tensor<T> x) { return matvec_operation<T>(std::move(x), weight, bias, after, location); };
}

}  // namespace sluice
