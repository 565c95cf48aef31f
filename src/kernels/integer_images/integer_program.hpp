// SPDX-License-Identifier: Apache-2.0
// integer_program: a stretch of a network whose values are integers of 8 bits, as one command of a CPU.
//
// An image is kept with its channels last, [height, width, channels] bytes, in the command's scratch memory. Signed
// integers are kept 128 larger, so that all are unsigned; zero points are those of the bytes as they are kept. A value
// that a padded window reads has a border of its zero point, so that no loop asks whether a pixel exists. Convolutions
// multiply tiles of pixels by panels of 16 filters, without a copy of the windows, and round their sums to bytes while
// they are in registers.
//
// What a convolution gives is what quantized_product.hpp says, bit by bit, however the work is divided. An addition
// and a multiplication give what DequantizeLinear of both, the operation in f32 and QuantizeLinear give. An average is
// the exact sum of a window's integers times the scale, divided by their number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/channels_last/image_program.hpp"
#include "kernels/rounded_layers/quantized_product.hpp"

namespace sluice::kernels {

enum class integer_work : std::uint32_t {
    enter,              // bytes of an outside tensor, channels first, become a value
    quantize,           // the same of f32
    convolve,           // windows of all channels of a group, with each filter of the group
    convolve_channels,  // each channel with one filter of its own
    maximum,            // of each window
    average,            // of the numbers of each window
    add,                // the numbers of two values
    multiply,           // the same
    map,                // each byte becomes the byte that a table of 256 has for it
    leave,              // a value becomes bytes of an outside tensor, channels first
    dequantize          // the same of f32
};

// How bytes, as they are kept, stand for numbers: (byte - zero) * scale.
struct byte_quantity {
    float scale = 1;
    std::int32_t zero = 0;
};

// One step. Places are in bytes. A value's border is written by the step that gives the value.
struct integer_step {
    integer_work what{};
    std::uint32_t outside = 0;  // enter, quantize, leave, dequantize: the number of the tensor
    bool is_signed = false;     // enter, leave: the outside tensor's bytes are
    bool has_relu = false;      // convolve, convolve_channels, average, add, multiply
    image_size in, out;         // of what is read, of what is written
    image_place from, to;
    image_place also;               // add, multiply: the second value
    image_spread also_spread = {};  // the same
    bool counts_padding = false;    // average
    image_border border;            // of `to`
    std::uint8_t fill = 0;          // what the border is
    image_window window;
    std::size_t groups = 1;
    std::size_t numbers = 0;        // the place of the weights of convolutions, of the table of map
    byte_quantity quantity;         // of the bytes that are written; of dequantize: that are read
    byte_quantity read, also_read;  // average, add, multiply: of the bytes that are read
};

// The filters of one group of a convolution: runs of bytes that are neighbours in a window, each in whole fours.
struct filter_runs {
    std::size_t rows, columns, length;

    std::size_t fours() const noexcept { return (length + 3) / 4; }
    std::size_t panel_bytes() const noexcept { return rows * columns * fours() * 64; }
};
// A row of a window is one run where its pixels are neighbours and all of their channels are read.
filter_runs runs_of(const image_window& window, std::size_t channels_of_group, std::size_t groups) noexcept;

// Weights in the order in which the loops read them. For each group: [panels][rows][columns][fours][16][4] weights,
// then for each filter, in whole panels, the factor of its sums, its bias, and what its sums begin with:
// - zero * the sum of its weights. Of convolve_channels: [fours of the window's taps][channels in whole 16][4] weights,
// then the same.
struct filter_places {
    std::size_t factors, biases, starts, end;  // in bytes from the group's begin
};
filter_places places_of_filters(std::size_t weight_bytes, std::size_t filters) noexcept;

// The weights of convolve_channels.
std::size_t channel_filter_bytes(const image_window& window, std::size_t channels) noexcept;

class integer_numbers {
public:
    // `layers`: of each group, weights in the order channel, height, width. Gives the place.
    std::size_t add_filters(const std::vector<integer_layer>& layers, const image_window& window,
                            const byte_quantity& x);
    // One filter for each channel.
    std::size_t add_channel_filters(const std::vector<integer_layer>& layers, const image_window& window,
                                    const byte_quantity& x);
    // Of map.
    std::size_t add_table(const std::array<std::uint8_t, 256>& table);
    const std::vector<std::byte>& all() const noexcept { return bytes_; }

private:
    std::size_t add_group(const integer_layer& layer, std::size_t weight_bytes, const byte_quantity& x);

    std::vector<std::byte> bytes_;
};

inline constexpr std::size_t most_outside_integers = 14;

// Trivially copyable.
struct integer_call {
    const integer_step* steps = nullptr;
    std::size_t count = 0;
    const std::byte* numbers = nullptr;
    std::uint8_t* scratch = nullptr;  // scratch_bytes for each of images_at_once(images)
    std::size_t images = 1;
    std::size_t scratch_bytes = 0;  // of one image
    std::byte* outside[most_outside_integers] = {};
};

// Scratch memory has this many bytes more than the values of an image: loops read whole vectors.
inline constexpr std::size_t integer_slack = 64;
// How many images may be in work at a time.
constexpr std::size_t images_at_once(std::size_t images) noexcept { return images < 32 ? images : 32; }

struct integer_loops;

// Carries out the steps on this thread and on workers that have nothing else to do, with the best loops for this
// processor.
void run_integer_program(const integer_call& call);
void run_integer_program(const integer_call& call, const integer_loops& with);

// The loops for the vector units of this processor, the best ones first.
std::vector<const integer_loops*> known_integer_loops();

}  // namespace sluice::kernels
