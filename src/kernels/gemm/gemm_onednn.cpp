// SPDX-License-Identifier: Apache-2.0
// gemm on a CPU by oneDNN: an inner product with the bias fused, then the activation.
#include <compare>

#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/gemm/gemm_dispatch.hpp"
#include "kernels/onednn.hpp"

namespace sluice::kernels {
namespace {

using inner_product = dnnl::inner_product_forward;

struct plan_key {
    std::size_t rows, columns, inner;
    bool b_is_transposed, has_bias;
    friend auto operator<=>(const plan_key&, const plan_key&) = default;
};

dnnl::memory::desc matrix(std::size_t rows, std::size_t columns, dnnl::memory::format_tag tag) {
    return {{static_cast<dnnl_dim_t>(rows), static_cast<dnnl_dim_t>(columns)}, dnnl::memory::data_type::f32, tag};
}

inner_product::primitive_desc describe(const plan_key& key) {
    using tag = dnnl::memory::format_tag;
    const auto source = matrix(key.rows, key.inner, tag::nc);
    const auto weights = matrix(key.columns, key.inner, key.b_is_transposed ? tag::oi : tag::io);
    const auto out = matrix(key.rows, key.columns, tag::nc);
    const auto forward = dnnl::prop_kind::forward_inference;
    const auto attributes = onednn::attributes();
    const dnnl::memory::desc bias({static_cast<dnnl_dim_t>(key.columns)}, dnnl::memory::data_type::f32, tag::x);
#if DNNL_VERSION_MAJOR >= 3
    if (!key.has_bias) return {onednn::engine(), forward, source, weights, out, attributes};
    return {onednn::engine(), forward, source, weights, bias, out, attributes};
#else
    if (!key.has_bias) return {{forward, source, weights, out}, attributes, onednn::engine()};
    return {{forward, source, weights, bias, out}, attributes, onednn::engine()};
#endif
}

}  // namespace

void gemm_on_cpu(const gemm_call& call) {
    auto& mine = onednn::of_this_thread<onednn::thread_plans<plan_key, inner_product>>();
    const gemm_problem& of = call.problem;
    const plan_key key{of.rows, of.columns, of.inner, of.b_is_transposed, call.bias != nullptr};
    const auto floats = [](const void* operand) { return static_cast<const float*>(operand); };
    const error_context context{"gemm", "cpu"};
    auto* const out = static_cast<float*>(call.out);
    mine.run(key, &describe, context, floats(call.a), floats(call.b), floats(call.bias), out);
    activate_on_cpu({out, of.rows * of.columns}, call.after, context);
}

}  // namespace sluice::kernels
