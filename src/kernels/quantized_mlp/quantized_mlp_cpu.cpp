// SPDX-License-Identifier: Apache-2.0
// quantized_mlp on a CPU. The sums are those of fused_mlp's loops: products of 8-bit floats are exact in float, so
// fused multiply-adds give the same as products and additions, and sums of 1024 products of integers are exact. What
// follows is computed element by element.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/fused_mlp/fused_mlp_cpu.hpp"
#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"
#include "runtime/parallel_parts.hpp"

namespace sluice::kernels {
namespace {

// All layers' columns and the inputs', in whole panels.
std::size_t quantized_stride(const detail::fused_mlp_form& form) noexcept {
    std::size_t widest = 0;
    for (std::size_t i = 0; i <= form.layers; ++i) widest = std::max<std::size_t>(widest, form.features[i]);
    return cpu_stride(widest);
}

// What follows the sums of one layer.
struct layer_finish {
    float factor, gain;
    const float* biases;
    std::size_t rows, columns, stride;
};

void finish_layer(const cpu_loops& loops, float* sums, const layer_finish& with, activation what) {
    for (std::size_t r = 0; r < with.rows; ++r, sums += with.stride) {
        for (std::size_t c = 0; c < with.columns; ++c) sums[c] = std::fma(sums[c], with.factor, with.biases[c]);
        if (what == activation::softmax) {
            loops.softmax(sums, with.stride, 1, with.columns);
        } else {
            activate_on_cpu({sums, with.columns}, what);
        }
        for (std::size_t c = 0; c < with.columns; ++c) sums[c] *= with.gain;
    }
}

template <typename T>
void widen_rows(const T* from, std::size_t rows, std::size_t columns, float* to, std::size_t stride) {
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) to[r * stride + c] = static_cast<float>(from[r * columns + c]);
    }
}

// The rows of a block, through all layers.
template <typename T>
void run_quantized_block(const cpu_loops& loops, const quantized_mlp_call& call, std::size_t first, std::size_t rows,
                         float* scratch) {
    const detail::fused_mlp_form& sizes = call.form.sizes;
    const std::size_t stride = quantized_stride(sizes);
    float* x = scratch;
    float* sums = scratch + rows_of_cpu_block * stride;
    widen_rows(static_cast<const T*>(call.x) + first * sizes.in_features, rows, sizes.in_features, x, stride);
    const auto* image = static_cast<const float*>(call.image);
    for (std::size_t i = 0; i < sizes.layers; ++i, std::swap(x, sums)) {
        const std::size_t in = sizes.features[i], columns = sizes.features[i + 1], panels = panels_of(columns);
        loops.panels({x, stride, rows, image, in, columns, activation::none, sums, stride, 0, panels});
        image += panel_floats(in, columns);
        finish_layer(loops, sums, {call.form.factor[i], call.form.gain[i], image, rows, columns, stride},
                     sizes.after[i]);
        image += panels * panel_columns;
        const bool is_last = i + 1 == sizes.layers;
        T* const out = static_cast<T*>(call.out) + first * columns;
        for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t c = 0; c < columns; ++c) {
                float& each = sums[r * stride + c];
                const T made = rounded_to_8_bits<T>(each);
                if (is_last) {
                    out[r * columns + c] = made;
                } else {
                    each = static_cast<float>(made);
                }
            }
        }
    }
}

template <typename T>
void run_quantized(const quantized_mlp_call& call) {
    static const cpu_loops& loops = best_cpu_loops();
    const std::size_t parts = cpu_parts_of_rows(call.rows, call.form.sizes);
    const std::size_t scratch = 2 * rows_of_cpu_block * quantized_stride(call.form.sizes);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(call.rows, parts, part, rows_of_cpu_part);
        for (std::size_t first = range.first; first < range.last; first += rows_of_cpu_block) {
            run_quantized_block<T>(loops, call, first, std::min(rows_of_cpu_block, range.last - first),
                                   call.scratch + part * scratch);
        }
    });
}

}  // namespace

std::size_t quantized_mlp_scratch_floats(std::size_t rows, const detail::quantized_mlp_form& form) noexcept {
    return cpu_parts_of_rows(rows, form.sizes) * 2 * rows_of_cpu_block * quantized_stride(form.sizes);
}

void quantized_mlp_on_cpu(const quantized_mlp_call& call, eight_bit_type type) {
    return type == eight_bit_type::f8 ? run_quantized<f8_e4m3>(call) : run_quantized<std::int8_t>(call);
}

template <detail::eight_bit_element T>
std::vector<std::byte> quantized_image_for_cpu(const std::vector<mlp_layer>& layers, const std::vector<float>& scales) {
    std::vector<float> image;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const mlp_layer& layer = layers[i];
        const std::size_t in = layer.in_features, out = layer.out_features, panels = panels_of(out);
        const std::size_t first = image.size();
        image.resize(first + panel_floats(in, out) + panels * panel_columns);
        float* const weight = image.data() + first;
        float* const biases = weight + panel_floats(in, out);
        const float by = 1 / scales[i];
        for (std::size_t row = 0; row < out; ++row) {
            float* const panel = weight + row / panel_columns * in * panel_columns + row % panel_columns;
            for (std::size_t k = 0; k < in; ++k) {
                panel[k * panel_columns] = static_cast<float>(rounded_to_8_bits<T>(layer.weight[row * in + k] * by));
            }
            if (!layer.bias.empty()) biases[row] = layer.bias[row];
        }
    }
    std::vector<std::byte> bytes(image.size() * sizeof(float));
    std::memcpy(bytes.data(), image.data(), bytes.size());
    return bytes;
}
template std::vector<std::byte> quantized_image_for_cpu<f8_e4m3>(const std::vector<mlp_layer>&,
                                                                 const std::vector<float>&);
template std::vector<std::byte> quantized_image_for_cpu<std::int8_t>(const std::vector<mlp_layer>&,
                                                                     const std::vector<float>&);

}  // namespace sluice::kernels
