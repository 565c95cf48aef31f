// gemm: matrix products in f32, with bias and activation, by the fast library of the device: cuBLASLt on a
// GPU, oneDNN (or OpenBLAS) on a CPU. linear: the same with the weight as a PyTorch Linear keeps it.
//
//     out[rows, columns] = activation(a[rows, inner] * b + bias)
//
// Arithmetic is f32 throughout (no tf32). NaN and infinities propagate, except that a fused ReLU may turn
// NaN into 0.
//
// Errors, before anything is submitted: errc::shape_mismatch when the shapes do not fit together.
#pragma once

#include <optional>

#include "sluice/kernels/activation.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/source_location.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

struct gemm_options {
    bool transpose_b = false;  // b is [columns, inner] instead of [inner, columns]
    activation after = activation::none;
};

// The plain form: the product as commands on a stream. `bias` has `columns` elements, or is null. `out` is
// [rows, columns] and is none of the others. Does not block.
void gemm(stream& on, const tensor<float>& a, const tensor<float>& b, const tensor<float>* bias, tensor<float>& out,
          const gemm_options& options = {}, source_location where = source_location::current());

namespace detail {
// Throws errc::shape_mismatch unless the operands fit; otherwise the shape of the product.
shape gemm_shape(const shape& a, const shape& b, const shape* bias, const gemm_options& options,
                 const error_context& context);

inline const tensor<float>& as_tensor(const tensor<float>& owned) { return owned; }
inline const tensor<float>& as_tensor(const shared_tensor<float>& shared) { return *shared; }
template <typename T>
concept f32_operand = std::same_as<T, tensor<float>> || std::same_as<T, shared_tensor<float>>;
}  // namespace detail

template <detail::f32_operand A, detail::f32_operand B>
class gemm_operation : public operation_base<gemm_operation<A, B>> {
public:
    using output = tensor<float>;

    gemm_operation(A a, B b, std::optional<shared_tensor<float>> bias, const gemm_options& options,
                   source_location where)
        : a_(std::move(a)), b_(std::move(b)), bias_(std::move(bias)), options_(options), where_(where) {}

    output submit(execution_context& context) && {
        const tensor<float>& a = detail::as_tensor(a_);
        const tensor<float>& b = detail::as_tensor(b_);
        const tensor<float>* const bias = bias_ ? &**bias_ : nullptr;
        const shape made = detail::gemm_shape(a.shape(), b.shape(), bias != nullptr ? &bias->shape() : nullptr,
                                              options_, {"gemm", context.device().name(), where_});
        tensor<float> out(context.stream(), made, {"gemm", {}, where_});
        gemm(context.stream(), a, b, bias, out, options_, where_);
        return out;
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    A a_;
    B b_;
    std::optional<shared_tensor<float>> bias_;
    gemm_options options_;
    source_location where_;
};

// The operation: operands are tensors or shared tensors; its output is a new tensor.
template <detail::f32_operand A, detail::f32_operand B>
auto gemm(A a, B b, const gemm_options& options = {}, source_location where = source_location::current()) {
    return gemm_operation<A, B>(std::move(a), std::move(b), std::nullopt, options, where);
}
template <detail::f32_operand A, detail::f32_operand B>
auto gemm(A a, B b, shared_tensor<float> bias, const gemm_options& options = {},
          source_location where = source_location::current()) {
    return gemm_operation<A, B>(std::move(a), std::move(b), std::move(bias), options, where);
}

// activation(x * weight^T + bias): a layer of a network. weight is [out features, in features].
template <detail::f32_operand X>
auto linear(X x, shared_tensor<float> weight, std::optional<shared_tensor<float>> bias,
            activation after = activation::none, source_location where = source_location::current()) {
    return gemm_operation<X, shared_tensor<float>>(std::move(x), std::move(weight), std::move(bias),
                                                   {.transpose_b = true, .after = after}, where);
}

}  // namespace sluice
