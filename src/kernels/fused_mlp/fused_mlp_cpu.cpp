// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"

namespace sluice::kernels {
namespace {

cpu_forward* best_forward() {
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) return &fused_mlp_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &fused_mlp_avx2;
#endif
    return &fused_mlp_baseline;
}

// All layers' columns, in whole panels.
std::size_t stride_of(const detail::fused_mlp_form& form) noexcept {
    std::size_t stride = 0;
    for (std::size_t i = 0; i <= form.layers; ++i) {
        stride = std::max(stride, panels_of(form.features[i]) * panel_columns);
    }
    return stride;
}

template <typename T>
void run(const fused_mlp_call& call) {
    static cpu_forward* const forward = best_forward();
    const detail::fused_mlp_form& form = call.form;
    const std::size_t in = form.in_features, out = form.out_features;
    const std::size_t stride = stride_of(form);
    const std::size_t part = rows_of_cpu_block * stride;
    float* const scratch = call.scratch;
    for (std::size_t first = 0; first < call.rows; first += rows_of_cpu_block) {
        const std::size_t rows = std::min(rows_of_cpu_block, call.rows - first);
        const T* const from = static_cast<const T*>(call.x) + first * in;
        T* const to = static_cast<T*>(call.out) + first * out;
        cpu_block block{nullptr, in, rows, {scratch, scratch + part}, stride};
        if constexpr (std::is_same_v<T, float>) {
            block.x = from;
        } else {
            std::copy_n(from, rows * in, scratch + 2 * part);
            block.x = scratch + 2 * part;
        }
        const float* const made = forward(block, static_cast<const float*>(call.image), form);
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t c = 0; c < out; ++c) to[row * out + c] = T(made[row * stride + c]);
        }
    }
}

}  // namespace

std::size_t fused_mlp_scratch_floats(const detail::fused_mlp_form& form) noexcept {
    return 3 * rows_of_cpu_block * stride_of(form);
}

void fused_mlp_on_cpu(const fused_mlp_call& call, fused_type type) {
    switch (type) {
        case fused_type::f16: return run<half>(call);
        case fused_type::bf16: return run<bfloat16>(call);
        case fused_type::f32: return run<float>(call);
    }
}

}  // namespace sluice::kernels
