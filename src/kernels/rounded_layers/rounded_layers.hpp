// SPDX-License-Identifier: Apache-2.0
// Dense layers on a CPU whose factors are rounded to 16 or 8 bits; inputs and outputs are f32.
//
//     y = after(sum over k of rounded(x[k]) * rounded(weight[k]) + bias)
//
// bf16, f16: both factors are rounded to nearest even, once; products and sums are f32. (A processor with AVX-512-BF16
// or AMX takes subnormal factors and sums for 0.) In which order is up to the kernel, but the same for each row,
// whatever other rows there are and however they are divided among workers: a row has the same answer, bit by bit, in
// all batches.
//
// int8: the weights of an output are the integers round(weight / step), step being their largest magnitude / 127. A
// row's inputs are the integers clamp(round(x / scale) + zero, 0, 255) with
//     low = min(0, row's smallest)   high = max(0, row's largest)   scale = (high - low) / 255   zero = round(-low /
//     scale)
// as DynamicQuantizeLinear has them for a whole tensor. Sums are exact 32-bit integers:
//     y = after(sum * (scale * step) + bias)
// A row with a NaN or an infinity has NaN in all outputs. A row whose scale would be 0 counts as zeros.
//
// The image of the weights, for each layer, each part at a multiple of 64 bytes: panels of 16 columns, [panels][inner]
// [16][group] elements, a group being the 2 (bf16), 1 (f16) or 4 (int8) neighbours along `in` that one instruction
// multiplies; then [panels][16] biases, and for int8 as many steps and as many sums of a column's integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/convolution/convolution_dispatch.hpp"
#include "sluice/kernels/activation.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {

enum class rounded_type : unsigned char { bf16, f16, int8 };

inline constexpr std::size_t rounded_panel = 16;  // columns
inline constexpr std::size_t most_rounded_layers = 9;
// Of one layer. With more inputs than this, sums of int8 could leave 32 bits.
inline constexpr std::size_t most_rounded_features = 65'535;

constexpr std::size_t group_of(rounded_type type) {
    return type == rounded_type::int8 ? 4 : type == rounded_type::bf16 ? 2 : 1;
}
constexpr std::size_t panels_of_columns(std::size_t columns) { return (columns + rounded_panel - 1) / rounded_panel; }
// `in` in whole groups.
constexpr std::size_t padded_inputs(rounded_type type, std::size_t in) {
    const std::size_t group = group_of(type);
    return (in + group - 1) / group * group;
}

// Trivially copyable.
struct rounded_form {
    std::uint32_t features[most_rounded_layers + 1] = {};  // of the inputs, then of each layer's outputs
    activation after[most_rounded_layers] = {};
    rounded_type type = rounded_type::bf16;
    unsigned char layers = 0;
};

constexpr std::size_t weight_bytes(rounded_type type) { return type == rounded_type::int8 ? 1 : 2; }
constexpr std::size_t aligned_bytes(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Memory of one's own that begins at a multiple of 64 bytes, and is zeros at first.
class aligned_memory {
public:
    explicit aligned_memory(std::size_t bytes = 0) { grow(bytes); }
    // What was in it is lost if it grows.
    void grow(std::size_t bytes) {
        if (bytes <= size_) return;
        memory_.assign(bytes + 63, std::byte{0});
        size_ = bytes;
    }
    std::byte* data() noexcept {
        const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
        return memory_.data() + (64 - at % 64) % 64;
    }

private:
    std::vector<std::byte> memory_;
    std::size_t size_ = 0;
};

// Where a layer's parts are, in bytes from the layer's begin.
struct rounded_layer_places {
    std::size_t biases, steps, column_sums, end;
};
rounded_layer_places places_of(rounded_type type, std::size_t in, std::size_t out);

// Why the layer cannot be rounded so without losing more than the rounding: "a weight is no finite number", say. Empty
// if it can. A bias may be anything.
std::string_view why_not_rounded(rounded_type type, const mlp_layer& layer);

rounded_form form_of(rounded_type type, const std::vector<mlp_layer>& layers);
std::vector<std::byte> rounded_image(rounded_type type, const std::vector<mlp_layer>& layers);

// --- kernels -----------------------------------------------------------------------------------------------------

// How the integers of a row came from its numbers.
struct row_quantity {
    float scale;  // NaN: the row has a NaN or an infinity
    std::int32_t zero;
};

// The smallest and the largest of some numbers and 0.
struct number_range {
    float low = 0, high = 0;
    bool is_finite = true;  // no NaN, no infinity
};
// As DynamicQuantizeLinear has it for numbers of this range: scale = (high - low) / 255, zero = round(-low / scale).
// Numbers that are all 0 have the scale 1.
row_quantity quantity_of(const number_range& range) noexcept;

// Rows that are rounded, times some panels of a layer.
struct rounded_part {
    const std::byte* rows;
    std::size_t row_bytes, count;  // of rows; see row_bytes_of
    const std::byte* weights;      // of the first panel
    std::size_t groups, panels;
    // For int8 the last three belong to the first panel, too.
    const float* biases;
    const float* steps;
    const std::int32_t* column_sums;
    const row_quantity* quantities;  // of int8, for each row
    activation after;
    float* out;  // [count][out_stride]; whole panels are written
    std::size_t out_stride;
    // Only for kernels that round outputs: if not null, the outputs are written here instead, rounded as inputs of the
    // next layer, [count][next_bytes]. Beyond `next_columns` they are zeros, up to an even number of panels: what the
    // last panel has there may be NaN, an infinity times its zeros.
    std::byte* next = nullptr;
    std::size_t next_bytes = 0, next_columns = 0;
    bool weights_are_far = false;  // beyond the second cache: kernels with tiles ask for them in advance
};

// Of rows at a time.
inline constexpr std::size_t rounded_block = 48;

// How rows and columns are divided among workers.
struct rounded_sharing {
    std::size_t block = rounded_block;                  // rows that go through all layers together
    std::size_t least_rows = 24;                        // of a worker, where the rows are divided
    std::size_t least_products = std::size_t{2} << 20;  // of a worker: some 50 µs
    std::size_t counted_rows = 1;                       // fewer count as many: reading the weights takes as long
};
// Of kernels with tiles, which are some ten times as fast: larger blocks, since each reads all weights. (On a core of a
// Xeon blocks of 64, 128 and 256 rows of 784-2048-2048-10 take 15.2, 12.4 and 11.2 ms; but a call of 1024 rows has as
// many parts as it has blocks. The rest are estimates, to be measured with bench_rounded_layers --sharing.)
inline constexpr rounded_sharing sharing_of_bf16_tiles{128, 64, std::size_t{4} << 20, 16};
inline constexpr rounded_sharing sharing_of_int8_tiles{128, 64, std::size_t{8} << 20, 16};

// What one kind of processor does.
struct rounded_kernel {
    std::string_view name;      // "AVX-512-BF16"
    bool has_own_products;      // instructions that multiply the rounded factors; else they are widened first
    std::size_t element_bytes;  // of a rounded input
    // [count][padded] from x; beyond `in` zeros.
    void (*round_rows)(const float* x, std::size_t x_stride, std::size_t count, std::size_t in, std::size_t padded,
                       std::byte* rows, row_quantity* quantities);
    void (*multiply)(const rounded_part& part);
    bool has_tiles = false;  // needs rows of whole tiles
    rounded_sharing sharing = {};
    bool rounds_outputs = false;  // see rounded_part::next
    // Of int8, for numbers that several rows have a quantity for: the range with these numbers too; and the numbers as
    // integers, clamp(round(x / scale) + zero, 0, 255). Those whose scale is NaN are 0.
    void (*widen)(number_range& range, const float* x, std::size_t count) = nullptr;
    void (*quantize)(const float* x, std::size_t count, row_quantity by, std::byte* to) = nullptr;
};

// From one rounded row to the next. With tiles: zeros up to a whole tile, and an odd number of 64-byte lines, so that
// the 16 rows of a tile are in different sets of a cache.
constexpr std::size_t row_bytes_of(const rounded_kernel& with, rounded_type type, std::size_t in) {
    const std::size_t bytes = padded_inputs(type, in) * with.element_bytes;
    return with.has_tiles ? (aligned_bytes(bytes) / 64 | 1) * 64 : bytes;
}
// The same of f32 outputs, in elements. A panel of them is a line.
constexpr std::size_t output_stride_of(const rounded_kernel& with, std::size_t out) {
    const std::size_t panels = panels_of_columns(out);
    return (with.has_tiles ? panels | 1 : panels) * rounded_panel;
}

// All that this processor can run, the fastest first.
std::span<const rounded_kernel> rounded_kernels(rounded_type type);

// How much scratch memory one block of rows needs.
std::size_t rounded_scratch_bytes(const rounded_form& form, const rounded_kernel& with) noexcept;

struct rounded_call {
    const float* x;
    float* out;
    const std::byte* image;
    std::byte* scratch;  // rounded_scratch_bytes(form, *with) of them
    const rounded_kernel* with;
    std::size_t rows;
    rounded_form form;
};

// On a worker thread of a CPU device, all of it, with the workers that have nothing else to do.
void run_rounded_layers(const rounded_call& call);

// --- commands ------------------------------------------------------------------------------------------------------

// On a device that is a CPU. x is [rows, in features], out [rows, out features] and not x; both dense and f32. Does not
// block.
void submit_rounded_layers(stream on, const tensor<float>& x, const rounded_form& form, const tensor<std::byte>& image,
                           tensor<float>& out);
// With one of rounded_kernels(form.type), or a copy of one with another `sharing`, which stays until the stream has
// passed.
void submit_rounded_layers(stream on, const tensor<float>& x, const rounded_form& form, const tensor<std::byte>& image,
                           tensor<float>& out, const rounded_kernel& with);

// A convolution as such a layer for each group, whose rows are the windows, in the order height, width, channel. The
// inputs that int8 quantizes together are those of one group in one image. `image` has the layers of the groups, one
// after the other.
struct rounded_convolution {
    const float* x;
    float* out;
    const std::byte* image;
    std::byte* scratch;  // rounded_convolution_scratch_bytes(form) of them
    const rounded_kernel* with;
    convolution_form form;
    rounded_type type;
};
std::size_t rounded_convolution_scratch_bytes(const convolution_form& form);
void run_rounded_convolution(const rounded_convolution& call);
// x is [images, channels, height, width], out [images, filters, height, width] and not x.
void submit_rounded_convolution(stream on, const tensor<float>& x, const convolution_form& form, rounded_type type,
                                const tensor<std::byte>& image, tensor<float>& out);

}  // namespace sluice::kernels

// None has an array of classes.
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::rounded_call> =
    sluice::detail::compiler_clears_padding;
template <>
inline constexpr bool sluice::detail::can_clear_padding<sluice::kernels::rounded_convolution> =
    sluice::detail::compiler_clears_padding;
