// SPDX-License-Identifier: Apache-2.0
// gemm on a CPU by oneDNN: an inner product with the bias fused, then the activation.
#include <compare>

#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/gemm/gemm_dispatch.hpp"
#include "kernels/onednn.hpp"
#include "runtime/parallel_parts.hpp"

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

class gemm_plan : public onednn::plan<inner_product> {
public:
    explicit gemm_plan(const plan_key& key) : plan(describe(key), key.has_bias) {}
};

// Of multiplications and additions, in a part that another worker may carry out: some 100 µs.
constexpr std::size_t least_of_part = std::size_t{4} << 20;
constexpr std::size_t least_rows = 16, least_columns = 64;

void multiply(const gemm_problem& of, const float* a, const float* b, const float* bias, float* out, activation after) {
    auto& mine = onednn::of_this_thread<onednn::thread_plans<plan_key, gemm_plan>>();
    const plan_key key{of.rows, of.columns, of.inner, of.b_is_transposed, bias != nullptr};
    const error_context context{"gemm", "cpu"};
    mine.run(key, context, {}, a, b, bias, out);
    activate_on_cpu({out, of.rows * of.columns}, after);
}

}  // namespace

void gemm_on_cpu(const gemm_call& call) {
    const gemm_problem& of = call.problem;
    const auto floats = [](const void* operand) { return static_cast<const float*>(operand); };
    const float *const a = floats(call.a), *const b = floats(call.b), *const bias = floats(call.bias);
    auto* const out = static_cast<float*>(call.out);
    const std::size_t work = of.rows * of.columns * of.inner;
    // A row of a matrix that is multiplied by a transposed one is divided by columns; both parts are dense then.
    const bool by_columns = of.rows == 1 && of.b_is_transposed;
    const std::size_t size = by_columns ? of.columns : of.rows, unit = by_columns ? least_columns : least_rows;
    const std::size_t parts = sluice::detail::parts_for(work, least_of_part, size / unit);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(size, parts, part, unit);
        gemm_problem some = of;
        (by_columns ? some.columns : some.rows) = range.last - range.first;
        if (by_columns) {
            multiply(some, a, b + range.first * of.inner, bias != nullptr ? bias + range.first : nullptr,
                     out + range.first, call.after);
        } else {
            multiply(some, a + range.first * of.inner, b, bias, out + range.first * of.columns, call.after);
        }
    });
}

}  // namespace sluice::kernels
