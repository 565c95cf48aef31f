// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "runtime/parallel_parts.hpp"

namespace sluice::kernels {
namespace {

// Products of numbers in a part: 5 to 10 µs of them. While a worker wakes up, the calling thread carries out the first
// parts.
constexpr std::size_t products_of_part = 500'000;
// A weight that comes from the third cache takes as long as this many products.
constexpr std::size_t products_of_far_weight = 5;
// Above this number the weights do not fit into the second cache of a core.
constexpr std::size_t weights_of_wide_network = std::size_t{256} * 1024;

// The rows of a tile must not all fall into one set of the first cache.
constexpr std::size_t cache_period = 256;

// All layers' columns, in whole panels.
std::size_t stride_of(const detail::fused_mlp_form& form) noexcept {
    std::size_t widest = 0;
    for (std::size_t i = 1; i <= form.layers; ++i) widest = std::max<std::size_t>(widest, form.features[i]);
    return cpu_stride(widest);
}

std::size_t products_of_row(const detail::fused_mlp_form& form) noexcept {
    std::size_t products = 0;
    for (std::size_t i = 0; i < form.layers; ++i) products += std::size_t{form.features[i]} * form.features[i + 1];
    return products;
}

// Then workers share the columns of each layer, so that each core reads its part of the weights once for many rows.
bool is_wide(const detail::fused_mlp_form& form) noexcept { return products_of_row(form) >= weights_of_wide_network; }

std::size_t rows_of_block(const detail::fused_mlp_form& form) noexcept {
    return is_wide(form) ? rows_of_wide_cpu_block : rows_of_cpu_block;
}

// A few rows of a narrow network are not worth a wake-up for each of its layers.
bool shares_columns(std::size_t rows, const detail::fused_mlp_form& form) noexcept {
    return is_wide(form) || (rows <= rows_of_cpu_part && rows * products_of_row(form) >= 2 * products_of_part);
}

// Panels of a part are a multiple of this: the fewer rows there are, the more panels a tile has.
constexpr std::size_t panels_of_part(std::size_t rows) { return rows == 1 ? 8 : rows < 4 ? 4 : 2; }

std::size_t parts_of_columns(std::size_t rows, std::size_t in, std::size_t columns, bool is_wide) noexcept {
    const std::size_t far = is_wide ? products_of_far_weight : 1;
    return sluice::detail::parts_for(std::max(rows, far) * in * columns, products_of_part,
                                     panels_of(columns) / panels_of_part(rows));
}

// Two blocks of activations, and one for inputs of 16 bits. The same for all small numbers of rows, so that a stream's
// workspace does not grow with each of them.
std::size_t scratch_of_block(std::size_t rows, const detail::fused_mlp_form& form, bool is_f32) noexcept {
    const std::size_t most = rows <= rows_of_cpu_block ? rows_of_cpu_block : rows_of_block(form);
    return most * (2 * stride_of(form) + (is_f32 ? 0 : form.in_features));
}

// A block with its inputs as floats.
template <typename T>
cpu_block block_at(const fused_mlp_call& call, std::size_t first, std::size_t last, float* scratch) {
    const std::size_t in = call.form.in_features, stride = stride_of(call.form);
    const std::size_t rows = std::min(rows_of_block(call.form), last - first), part = rows * stride;
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
        const cpu_block block = block_at<T>(call, first, last, scratch);
        const float* const made = loops.forward(block, static_cast<const float*>(call.image), call.form);
        write_rows<T>(call, first, block, made);
    }
}

// Workers share the columns, or the rows where there are few columns.
void run_layer(const cpu_loops& loops, const cpu_columns& whole, bool is_wide) {
    const std::size_t panels = panels_of(whole.columns), unit = panels_of_part(whole.rows);
    const std::size_t by_columns = parts_of_columns(whole.rows, whole.in, whole.columns, is_wide);
    const std::size_t by_rows = by_columns > 1
                                    ? 1
                                    : sluice::detail::parts_for(whole.rows * whole.in * panels * panel_columns,
                                                                products_of_part, whole.rows / rows_of_cpu_part);
    sluice::detail::for_parts(by_columns * by_rows, [&](std::size_t part) {
        const auto columns = sluice::detail::range_of_part(panels, by_columns, part / by_rows, unit);
        const auto rows = sluice::detail::range_of_part(whole.rows, by_rows, part % by_rows, rows_of_cpu_part);
        cpu_columns some = whole;
        some.x += rows.first * whole.x_stride;
        some.out += rows.first * whole.out_stride;
        some.rows = rows.last - rows.first;
        some.first_panel = columns.first;
        some.last_panel = columns.last;
        loops.layer(some);
    });
}

// A block from `first` on, whose layers' columns are shared by workers. Returns its rows.
template <typename T>
std::size_t run_block_by_columns(const cpu_loops& loops, const fused_mlp_call& call, std::size_t first) {
    const detail::fused_mlp_form& form = call.form;
    const cpu_block block = block_at<T>(call, first, call.rows, call.scratch);
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
        run_layer(loops, layer, is_wide(form));
        if (layer.after == activation::softmax) loops.softmax(layer.out, block.stride, block.rows, layer.columns);
        layer.image += cpu_layer_floats(layer.in, layer.columns);
        layer.x = layer.out;
        layer.x_stride = block.stride;
    }
    write_rows<T>(call, first, block, layer.out);
    return block.rows;
}

template <typename T>
void run(const fused_mlp_call& call) {
    static const cpu_loops& loops = best_cpu_loops();
    if (shares_columns(call.rows, call.form)) {
        for (std::size_t first = 0; first < call.rows;) first += run_block_by_columns<T>(loops, call, first);
        return;
    }
    const std::size_t parts = cpu_parts_of_rows(call.rows, call.form);
    const std::size_t scratch = scratch_of_block(call.rows, call.form, std::is_same_v<T, float>);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(call.rows, parts, part, rows_of_cpu_part);
        run_rows<T>(loops, call, call.scratch + part * scratch, range.first, range.last);
    });
}

}  // namespace

const cpu_loops& best_cpu_loops() {
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) return fused_mlp_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fused_mlp_avx2;
#endif
    return fused_mlp_baseline;
}

std::size_t cpu_stride(std::size_t widest) noexcept {
    const std::size_t columns = panels_of(widest) * panel_columns;
    return columns % cache_period == 0 ? columns + panel_columns : columns;
}

std::size_t cpu_parts_of_rows(std::size_t rows, const detail::fused_mlp_form& form) noexcept {
    return sluice::detail::parts_for(rows * products_of_row(form), products_of_part,
                                     (rows + rows_of_cpu_part - 1) / rows_of_cpu_part);
}

std::size_t fused_mlp_scratch_floats(std::size_t rows, const detail::fused_mlp_form& form, fused_type type) noexcept {
    const std::size_t block = scratch_of_block(rows, form, type == fused_type::f32);
    return shares_columns(rows, form) ? block : cpu_parts_of_rows(rows, form) * block;
}

void fused_mlp_on_cpu(const fused_mlp_call& call, fused_type type) {
    switch (type) {
        case fused_type::f16: return run<half>(call);
        case fused_type::bf16: return run<bfloat16>(call);
        case fused_type::f32: return run<float>(call);
    }
}

}  // namespace sluice::kernels
