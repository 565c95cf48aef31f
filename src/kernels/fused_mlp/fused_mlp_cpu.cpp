// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "runtime/parallel_parts.hpp"

namespace sluice::kernels {
namespace {

// Rows of a part are a multiple of this: of the tiles of all vector units.
constexpr std::size_t rows_of_part = 12;
// Products of numbers in a part: some 50 µs of rows, and some 10 µs of one layer's columns, since the workers that help
// with one layer are still awake for the next.
constexpr std::size_t products_of_rows = 2'500'000, products_of_columns = 500'000;
constexpr std::size_t panels_of_part = 4;

const cpu_loops& best_loops() {
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) return fused_mlp_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fused_mlp_avx2;
#endif
    return fused_mlp_baseline;
}

// The rows of a tile must not all fall into one set of the first cache.
constexpr std::size_t cache_period = 256;

// All layers' columns, in whole panels.
std::size_t stride_of(const detail::fused_mlp_form& form) noexcept {
    std::size_t widest = 0;
    for (std::size_t i = 1; i <= form.layers; ++i) widest = std::max<std::size_t>(widest, form.features[i]);
    const std::size_t columns = panels_of(widest) * panel_columns;
    return columns % cache_period == 0 ? columns + panel_columns : columns;
}

std::size_t products_of_row(const detail::fused_mlp_form& form) noexcept {
    std::size_t products = 0;
    for (std::size_t i = 0; i < form.layers; ++i) products += std::size_t{form.features[i]} * form.features[i + 1];
    return products;
}

std::size_t parts_of_rows(std::size_t rows, const detail::fused_mlp_form& form) noexcept {
    return sluice::detail::parts_for(rows * products_of_row(form), products_of_rows,
                                     (rows + rows_of_part - 1) / rows_of_part);
}

// Two blocks of activations, and one for inputs of 16 bits.
std::size_t scratch_of_part(const detail::fused_mlp_form& form, bool is_f32) noexcept {
    return rows_of_cpu_block * (2 * stride_of(form) + (is_f32 ? 0 : form.in_features));
}

// A block with its inputs as floats.
template <typename T>
cpu_block block_at(const fused_mlp_call& call, std::size_t first, std::size_t rows, float* scratch) {
    const std::size_t in = call.form.in_features, stride = stride_of(call.form);
    const std::size_t part = rows_of_cpu_block * stride;
    const T* const from = static_cast<const T*>(call.x) + first * in;
    cpu_block block{nullptr, in, rows, {scratch, scratch + part}, stride};
    if constexpr (std::is_same_v<T, float>) {
        block.x = from;
    } else {
        std::copy_n(from, rows * in, scratch + 2 * part);
        block.x = scratch + 2 * part;
    }
    return block;
}

template <typename T>
void write_rows(const fused_mlp_call& call, std::size_t first, const cpu_block& block, const float* made) {
    const std::size_t out = call.form.out_features;
    T* const to = static_cast<T*>(call.out) + first * out;
    for (std::size_t row = 0; row < block.rows; ++row) {
        for (std::size_t c = 0; c < out; ++c) to[row * out + c] = T(made[row * block.stride + c]);
    }
}

template <typename T>
void run_rows(const cpu_loops& loops, const fused_mlp_call& call, float* scratch, std::size_t first, std::size_t last) {
    for (; first < last; first += rows_of_cpu_block) {
        const cpu_block block = block_at<T>(call, first, std::min(rows_of_cpu_block, last - first), scratch);
        const float* const made = loops.forward(block, static_cast<const float*>(call.image), call.form);
        write_rows<T>(call, first, block, made);
    }
}

// One block, whose layers' columns are shared by workers.
template <typename T>
void run_columns(const cpu_loops& loops, const fused_mlp_call& call) {
    const detail::fused_mlp_form& form = call.form;
    const cpu_block block = block_at<T>(call, 0, call.rows, call.scratch);
    cpu_columns layer{.x = block.x,
                      .x_stride = block.x_stride,
                      .rows = block.rows,
                      .image = static_cast<const float*>(call.image),
                      .in = 0,
                      .columns = 0,
                      .after = {},
                      .out = nullptr,
                      .out_stride = block.stride,
                      .first_panel = 0,
                      .last_panel = 0};
    for (std::size_t i = 0; i < form.layers; ++i) {
        layer.in = form.features[i];
        layer.columns = form.features[i + 1];
        layer.after = form.after[i];
        layer.out = block.activations[i % 2];
        const std::size_t panels = panels_of(layer.columns);
        const std::size_t parts = sluice::detail::parts_for(block.rows * layer.in * layer.columns, products_of_columns,
                                                            panels / panels_of_part);
        sluice::detail::for_parts(parts, [&](std::size_t part) {
            const auto range = sluice::detail::range_of_part(panels, parts, part, panels_of_part);
            cpu_columns some = layer;
            some.first_panel = range.first;
            some.last_panel = range.last;
            loops.layer(some);
        });
        if (layer.after == activation::softmax) loops.softmax(layer.out, block.stride, block.rows, layer.columns);
        layer.image += cpu_layer_floats(layer.in, layer.columns);
        layer.x = layer.out;
        layer.x_stride = block.stride;
    }
    write_rows<T>(call, 0, block, layer.out);
}

template <typename T>
void run(const fused_mlp_call& call) {
    static const cpu_loops& loops = best_loops();
    const std::size_t parts = parts_of_rows(call.rows, call.form);
    const bool is_worth_sharing = call.rows * products_of_row(call.form) >= 2 * products_of_columns;
    if (parts == 1 && call.rows <= rows_of_cpu_block && is_worth_sharing) return run_columns<T>(loops, call);
    const std::size_t scratch = scratch_of_part(call.form, std::is_same_v<T, float>);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(call.rows, parts, part, rows_of_part);
        run_rows<T>(loops, call, call.scratch + part * scratch, range.first, range.last);
    });
}

}  // namespace

std::size_t fused_mlp_scratch_floats(std::size_t rows, const detail::fused_mlp_form& form, fused_type type) noexcept {
    return parts_of_rows(rows, form) * scratch_of_part(form, type == fused_type::f32);
}

void fused_mlp_on_cpu(const fused_mlp_call& call, fused_type type) {
    switch (type) {
        case fused_type::f16: return run<half>(call);
        case fused_type::bf16: return run<bfloat16>(call);
        case fused_type::f32: return run<float>(call);
    }
}

}  // namespace sluice::kernels
