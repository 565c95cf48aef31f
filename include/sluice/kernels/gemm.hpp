// SPDX-License-Identifier: Apache-2.0
// gemm: matrix products with bias and activation. linear: the same with the weight as a PyTorch Linear keeps it.
//
//     out[rows, columns] = after(a[rows, inner] * b + bias)
//
//     gemm(a, b)                                            // an operation, for tensors or shared ones
//     op.and_then(gemm(b))                                  // the same for the output of another operation
//     op.and_then(linear(weight, bias, activation::relu))   // b, weight and bias are shared tensors
//
// float: by the fast library of the device, cuBLASLt on a GPU, oneDNN (or OpenBLAS) on a CPU. Arithmetic is f32
// throughout, unless `allow_tf32` lets a GPU round the factors to tf32 (11 significant bits).
//
// half and bfloat16: sums are float, and so is all that comes after, up to one rounding of the result. On a GPU by
// cuBLASLt or by a kernel of Sluice's, whichever was measured to be faster for the shape (see gemm_tuning.hpp); what
// was not measured is cuBLASLt's where the activation can be a command of its own, else ours. On a CPU operands are
// turned into floats.
//
// NaN and infinities propagate as activation.hpp says, whatever the number of rows, the device and the way. Over an
// inner dimension of 0 the product is 0, so the result is after(bias).
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes do not fit together;
// errc::invalid_argument for an output that is an operand, and for softmax after half or bfloat16 (it is a command of
// its own); errc::unsupported for what cuBLASLt does not do on a GPU before compute capability 8.0.
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include "sluice/base/half.hpp"
#include "sluice/base/source_location.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/detail/operand.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

// How a product is computed.
struct gemm_options {
    bool transpose_b = false;             // b is [columns, inner] instead of [inner, columns]
    activation after = activation::none;  // applied to each element, after the bias
    bool allow_tf32 = false;              // for float on a GPU; relative error about 1e-3 instead of 1e-6
};

namespace detail {
template <typename T>
concept gemm_element = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

template <typename X>
concept gemm_operand = operand<X> && gemm_element<element_of<X>>;

// Throws errc::shape_mismatch unless the operands fit; otherwise the shape of the product.
shape gemm_shape(const shape& a, const shape& b, const shape* bias, const gemm_options& options,
                 const error_context& context);
}  // namespace detail

// The plain form: the product as commands on a stream. `bias` has `columns` elements, or is null. `out` is
// [rows, columns] and is none of the others. Does not block. Costs one command, and one more for an activation that the
// library does not fuse.
template <detail::gemm_element T>
void gemm(stream on, const tensor<T>& a, const tensor<T>& b, std::type_identity_t<const tensor<T>*> bias,
          tensor<T>& out, const gemm_options& options = {}, source_location location = source_location::current());

template <detail::gemm_operand A, detail::operand_of<detail::element_of<A>> B>
class gemm_operation : public operation_base<gemm_operation<A, B>> {
public:
    using element = detail::element_of<A>;  // of the operands and of the product
    using output = tensor<element>;

    gemm_operation(A a, B b, std::optional<shared_tensor<element>> bias, const gemm_options& options,
                   source_location location)
        : a_(std::move(a)), b_(std::move(b)), bias_(std::move(bias)), options_(options), location_(location) {}

    output submit(execution_context& context) && {
        const tensor<element>& a = detail::read(a_);
        const tensor<element>& b = detail::read(b_);
        const tensor<element>* const bias = bias_ ? &**bias_ : nullptr;
        const shape made = detail::gemm_shape(a.shape(), b.shape(), bias != nullptr ? &bias->shape() : nullptr,
                                              options_, {"gemm", context.device().name(), location_});
        output out(context.stream(), made, {"gemm", {}, location_});
        gemm(context.stream(), a, b, bias, out, options_, location_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    A a_;
    B b_;
    std::optional<shared_tensor<element>> bias_;
    gemm_options options_;
    source_location location_;
};

// The operation: operands are tensors or shared tensors; its output is a new tensor. Submitting it costs a new tensor,
// and what the plain form costs.
template <detail::gemm_operand A, detail::operand_of<detail::element_of<A>> B>
auto gemm(A a, B b, const gemm_options& options = {}, source_location location = source_location::current()) {
    return gemm_operation<A, B>(std::move(a), std::move(b), std::nullopt, options, location);
}
template <detail::gemm_operand A, detail::operand_of<detail::element_of<A>> B>
auto gemm(A a, B b, shared_tensor<detail::element_of<A>> bias, const gemm_options& options = {},
          source_location location = source_location::current()) {
    return gemm_operation<A, B>(std::move(a), std::move(b), std::move(bias), options, location);
}

// activation(x * weight^T + bias): a layer of a network. weight is [out features, in features]. Submitting it costs
// what gemm costs.
template <detail::gemm_operand X>
auto linear(X x, shared_tensor<detail::element_of<X>> weight, std::optional<shared_tensor<detail::element_of<X>>> bias,
            activation after = activation::none, source_location location = source_location::current()) {
    return gemm_operation<X, shared_tensor<detail::element_of<X>>>(std::move(x), std::move(weight), std::move(bias),
                                                                   {.transpose_b = true, .after = after}, location);
}

namespace detail {
template <gemm_element T>
auto multiplied_by(shared_tensor<T> b, std::optional<shared_tensor<T>> bias, const gemm_options& options,
                   const source_location& location) {
    return [=]<operand_of<T> A>(A a) {
        return gemm_operation<A, shared_tensor<T>>(std::move(a), b, bias, options, location);
    };
}
}  // namespace detail

// Functions of the left operand, for and_then. They cost what the operation costs.
template <detail::gemm_element T>
auto gemm(shared_tensor<T> b, const gemm_options& options = {}, source_location location = source_location::current()) {
    return detail::multiplied_by<T>(std::move(b), std::nullopt, options, location);
}
template <detail::gemm_element T>
auto linear(shared_tensor<T> weight, std::type_identity_t<std::optional<shared_tensor<T>>> bias,
            source_location location = source_location::current()) {
    return detail::multiplied_by<T>(std::move(weight), std::move(bias), {.transpose_b = true}, location);
}
// The activation's type is deduced, so that linear(x, weight, {}) with a shared x is the operation above. It costs what
// the operation costs.
template <detail::gemm_element T, std::same_as<activation> Activation>
auto linear(shared_tensor<T> weight, std::type_identity_t<std::optional<shared_tensor<T>>> bias, Activation after,
            source_location location = source_location::current()) {
    return detail::multiplied_by<T>(std::move(weight), std::move(bias), {.transpose_b = true, .after = after},
                                    location);
}

}  // namespace sluice
