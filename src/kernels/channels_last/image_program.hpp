// SPDX-License-Identifier: Apache-2.0
// image_program: a stretch of a convolutional network as one command of a CPU.
//
// An image is kept with its channels last, [height, width, channels], in the command's scratch memory. A value
// that a padded window reads has a border of zeros around its image, so that no loop asks whether a pixel
// exists. A value may be some channels of a wider one: then a concatenation costs nothing. Convolutions multiply tiles
// of neighbouring pixels by panels of filters, without a copy of the windows; what follows each element (an addend,
// bounds) is done while the tile is in registers.
//
// Each element is the same sum in the same order, on every thread and however the work is divided. The loops are
// compiled for each kind of vector unit, as those of fused_mlp are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/kernels/detail/window.hpp"

namespace sluice::kernels {

// Where a value is: the place of the first channel of the first pixel in the scratch memory, and the distances from one
// row and pixel to the next. All in elements. `image` only where the steps are of several images (image_batch.hpp): the
// distance from one image to the next.
struct image_place {
    std::size_t first = 0, row = 0, pixel = 0, image = 0;
};
struct image_size {
    std::size_t channels = 0, height = 0, width = 0;

    std::size_t elements() const noexcept { return channels * height * width; }
    friend bool operator==(const image_size&, const image_size&) = default;
};
// Rows and columns of zeros around an image.
struct image_border {
    std::size_t top = 0, left = 0, bottom = 0, right = 0;
};

struct image_window {
    size_2d size{1, 1}, stride{1, 1}, dilation{1, 1}, before{0, 0}, after{0, 0};
};

// What the windows of a convolution read around an image. At the bottom and on the right this may be less than the
// window's `after`: with a stride, the last window may end before.
image_border border_read_by(const image_window& window, const image_size& in, const image_size& out) noexcept;

enum class image_work : std::uint32_t {
    enter,              // an outside tensor, channels first, becomes a value
    leave,              // a value becomes an outside tensor
    convolve,           // windows of all channels of a group, with each filter of the group
    convolve_channels,  // each channel with one filter of its own
    // The transposed convolution: each pixel gives a window of outputs, `stride` apart, without the first `before`
    // ones. Only of image_batch.hpp, which says how filters are kept.
    convolve_transposed,
    maximum,   // of each window
    average,   // of each window
    scale,     // each channel times a factor, plus an addend
    add,       // two values
    multiply,  // two values
    copy,      // a value, perhaps with a curve or bounds
    shuffle,   // channel g * n + k, of groups of n, becomes k * groups + g
    resample,  // rows and columns at other places (image_resampling); only of image_batch.hpp
};

// What becomes of each element that a step writes, before its bounds.
enum class image_curve_kind : std::uint32_t {
    none,
    sigmoid,       // 1 / (1 + exp(-slope * x))
    hard_sigmoid,  // slope * x + offset, within 0 and 1
    tanh,
    leaky,  // x, below 0 times the slope
    gelu,   // 0.5 x (1 + erf(x / sqrt(2)))
    same    // x; only on a CPU
};
struct image_curve {
    image_curve_kind kind = image_curve_kind::none;
    bool times_input = false;  // the result times x: of a sigmoid SiLU, of hard_sigmoid hard-swish
    float slope = 1, offset = 0;
    // What becomes of the result: times the factor, plus the addend. Only on a CPU.
    bool is_scaled = false;
    float factor = 1, addend = 0;

    explicit operator bool() const noexcept { return kind != image_curve_kind::none; }
    friend bool operator==(const image_curve&, const image_curve&) = default;
};

// Where the rows or columns of a resampled image come from: (x + shift) * factor / divisor - back, for each x of the
// output. From the nearest row, or from the two around that place.
struct resampled_axis {
    double shift = 0, factor = 1, divisor = 1, back = 0;
};
enum class resample_by : std::uint32_t { nearest_half_down, nearest_half_up, nearest_down, nearest_up, linear };
struct image_resampling {
    resample_by by = resample_by::nearest_down;
    resampled_axis rows, columns;
};

// add, multiply: which elements of the first value one of the second one meets.
enum class image_spread : std::uint32_t {
    none,      // one
    pixels,    // those of all pixels: it is one pixel, whose rows and pixels are 0 apart
    channels,  // all of its pixel: it has one channel
};

// One step. A value's border is written by the step that gives the value.
struct image_step {
    image_work what{};
    std::uint32_t outside = 0;  // enter, leave: the number of the tensor
    image_size out;             // of what is written; of leave: of what is read
    image_size in;              // of what is read
    image_place from, to, also;
    bool has_also = false;  // add, multiply: the second value; convolve: a value to add
    image_spread also_spread = image_spread::none;
    bool has_bounds = false;
    bool counts_padding = false;  // average
    image_curve curve = {};       // of each element that is written, after what is added
    float least = 0, most = 0;    // of each element that is written, after the curve
    image_border border;          // of `to`
    image_window window;
    image_resampling resampling;  // resample
    // No other step than the next one reads what this one writes.
    bool only_next_reads = false;
    std::size_t groups = 1;
    // On a CPU: neither it nor the steps before it, back to one without this mark, read or write what another one of
    // them writes.
    bool is_side_by_side = false;
    // On a CPU: of a convolution whose output only the next step reads, a pooling. Both are carried out band by band
    // (image_bands): `to` is memory for the rows of all bands.
    bool has_bands = false;
    std::size_t numbers = 0;  // place of its weights or factors in the network's numbers, in floats
};

// A convolution and the pooling after it, carried out for one band of the pooling's rows after the other: what is in
// between stays in the second cache. Each band has memory of its own for its rows of the convolution. Rows that two
// bands read are computed twice.
struct image_bands {
    std::size_t count = 0;
    std::size_t rows = 0;  // of the convolution, in a band at most
};
// Nothing where bands are not worth it: then count is 0. A row of the value between the steps has `floats_of_row`.
image_bands bands_of(const image_step& convolution, const image_step& pooling, std::size_t floats_of_row);

// The weights of all steps, in the order in which the loops read them. A place is a multiple of 16 floats.
class image_numbers {
public:
    // Filters [filters, channels / groups, height, width]; the bias has a number for each, or none. Give the place.
    std::size_t add_filters(const float* filters, const float* bias, std::size_t count, std::size_t groups,
                            std::size_t channels_of_group, const size_2d& window);
    // The same for groups of one channel and one filter.
    std::size_t add_channel_filters(const float* filters, const float* bias, std::size_t channels,
                                    const size_2d& window);
    // Of `scale`.
    std::size_t add_factors(const std::vector<float>& factors, const std::vector<float>& addends);

    const std::vector<float>& all() const noexcept { return all_; }

private:
    std::size_t place(std::size_t floats);

    std::vector<float> all_;
};

// The last steps of a program, which are carried out for several images together. Their convolutions have more weights
// than an image has numbers, and they read few of the values that the steps before them write.
struct image_tail {
    std::size_t first = 0;  // its first step; the number of all steps: there is no such tail
    // Contains all that these steps read and none of them writes: floats of the scratch memory.
    std::size_t begin = 0, end = 0;
};
image_tail tail_of(const std::vector<image_step>& steps);

inline constexpr std::size_t most_outside_images = 14;

// A command. The steps and numbers are on the device, in memory that the command's accesses name.
struct image_call {
    const image_step* steps = nullptr;
    std::size_t count = 0;
    const float* numbers = nullptr;
    float* scratch = nullptr;
    // The steps are of one image. They are carried out for several, one after the other, whose values may take the same
    // memory: so the values of an image stay in the cache. But several images take the tail together. Workers take
    // images; scratch memory is for most_at_once().
    std::size_t images = 1;
    std::size_t scratch_floats = 0;  // of one image
    image_tail tail = {};            // with first 0, there is none
    std::size_t first_image = 0;     // where the outside tensors' first image is; 0 unless it is one of several
    float* outside[most_outside_images] = {};  // those that enter are only read
};

// Scratch memory has this many floats more than the values, since loops read whole vectors.
inline constexpr std::size_t image_slack = 64;

// How many images may be in work at a time.
constexpr std::size_t most_at_once(std::size_t images) noexcept { return images < 32 ? images : 32; }

struct image_loops;

// Carries out the steps on this thread and on workers that have nothing else to do, with the best loops for this
// processor.
void run_image_program(const image_call& call);
void run_image_program(const image_call& call, const image_loops& with);

// The loops for the vector units of this processor, the best ones first.
std::vector<const image_loops*> known_image_loops();

}  // namespace sluice::kernels
