// SPDX-License-Identifier: Apache-2.0
// image_batch: a stretch of a convolutional network as one command of a GPU, in f16 or bf16.
//
// The steps are those of image_program.hpp, but each is carried out for all images. Values are kept channels last,
// [images, height, width, channels], in the command's scratch memory, without borders. A value may be some channels of
// a wider one: then a concatenation costs nothing. cuBLASLt multiplies where a window is one pixel, cuDNN convolves
// elsewhere; both add the bias and a value and bound the result from below by 0 before it is rounded, except where a
// library has no such product or convolution: there the sum is rounded before them too. The rest is done by kernels of
// ours (image_batch_kernels.hpp), which a CPU can carry out too: tests do.
//
// Elements are rounded to the type where a step writes them; sums are f32. A NaN or an infinity of one pixel may reach
// all channels of the pixels that read it, and a bound may turn NaN into the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/channels_last/image_program.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice {
class device;
}

namespace sluice::kernels {

enum class short_type : std::uint8_t { f16, bf16 };
inline constexpr std::size_t short_bytes = 2;  // of an element

// Channels that a value of its own has in memory: tensor cores read 8 numbers at a time. Those that are added are 0.
constexpr std::size_t padded_channels(std::size_t channels) noexcept {
    return channels <= 4 ? 4 : (channels + 7) / 8 * 8;
}
// Whether a convolution in few groups is computed as one in one group, with filters of zeros elsewhere: tensor cores
// multiply the zeros faster than others leave them out.
bool joins_groups(std::size_t groups, std::size_t filters, std::size_t channels_of_group) noexcept;

// The weights of all steps, as bytes. A place is a multiple of 256 bytes.
//     convolve            elements [filters][height][width][channels of a group], then elements [filters]: biases.
//                         Of one group, filters and channels are padded.
//     convolve_transposed elements [phases][filters][height][width][channels], then elements [filters]: biases. A phase
//                         is those filters' elements that meet at one output: of window element c + stride * k, phase c
//                         has element taps - 1 - k (taps_of_phase), and zeros where there is no such element.
//     convolve_channels   floats [height][width][channels], then floats [channels]: biases. Channels are padded.
//     scale               floats [channels], factors, then floats [channels], addends. Channels are padded.
class batch_numbers {
public:
    explicit batch_numbers(short_type type) : type_(type) {}

    // Filters [filters, channels of a group, height, width]; a bias for each. Gives the place. If `shuffled_groups` is
    // not 0, filter g * n + k, of groups of n, is written as filter k * shuffled_groups + g: for those that are written
    // as of one group.
    std::size_t add_filters(const std::vector<float>& filters, const std::vector<float>& bias, std::size_t groups,
                            std::size_t channels_of_group, const size_2d& window, std::size_t shuffled_groups = 0);
    // Of one group; filters are [channels, filters, height, width].
    std::size_t add_transposed_filters(const std::vector<float>& filters, const std::vector<float>& bias,
                                       const size_2d& window, const size_2d& stride);
    std::size_t add_channel_filters(const std::vector<float>& filters, const std::vector<float>& bias,
                                    const size_2d& window);
    std::size_t add_factors(const std::vector<float>& factors, const std::vector<float>& addends);

    short_type type() const noexcept { return type_; }
    // Whether the type has a finite number for each that was added.
    bool are_finite() const noexcept { return are_finite_; }
    const std::vector<std::byte>& all() const noexcept { return all_; }

private:
    std::size_t place(std::size_t bytes);
    void write(std::size_t byte, std::size_t element, float value);
    std::size_t add_floats(const std::vector<float>& first, std::size_t rows, const std::vector<float>& last);

    short_type type_;
    bool are_finite_ = true;
    std::vector<std::byte> all_;
};

// The channels that a filter of `convolve` has in memory, the bytes of all filters, and where their biases begin.
struct filter_form {
    std::size_t filters, channels;
    std::size_t bias;  // bytes after the filters' place
};
filter_form filter_form_of(const image_step& step) noexcept;
// The elements of each phase of a transposed convolution.
size_2d taps_of_phase(const image_window& window) noexcept;

// A kernel may carry out up to this many neighbouring steps, each for some images: so layouts give no value memory that
// a step less than this before it uses.
inline constexpr std::size_t most_joined_steps = 3;

// A command. The numbers and the scratch memory are on the device; the steps are on the host.
struct batch_call {
    const image_step* steps = nullptr;
    std::size_t count = 0;
    const std::byte* numbers = nullptr;
    std::byte* scratch = nullptr;  // of scratch_elements elements
    std::size_t images = 1;
    short_type type = short_type::f16;
    float* outside[most_outside_images] = {};  // those that enter are only read
};

// What a GPU's libraries do of the steps of one command: chosen once for all images' sizes, by trial.
class batch_plan {
public:
    // Blocks: the candidates for each kind of convolution run on the GPU, on a stream of its own. `numbers` are on
    // the device. Throws errc::unsupported while a kernel stays on a GPU, and device_error.
    batch_plan(device& on, std::vector<image_step> steps, std::size_t images, std::size_t scratch_elements,
               short_type type, const std::byte* numbers);
    batch_plan(const batch_plan&) = delete;
    batch_plan& operator=(const batch_plan&) = delete;
    ~batch_plan();

    // All memory that a call needs, in bytes: values, then what the libraries need.
    std::size_t scratch_bytes() const noexcept;
    // Enqueues all steps on the native stream. The call's steps and numbers are the plan's.
    void run(const batch_call& call, const native_stream& on) const;
    // How each step is carried out, and what the trial measured: one line a step.
    std::string text() const;

private:
    struct state;
    std::unique_ptr<state> state_;
};

// Whether this GPU has what a plan needs: tensor cores for both types, cuBLASLt and cuDNN.
bool has_image_batches(device& on);

// The same on the host, by loops: the reference.
void run_image_batch_on_host(const batch_call& call);

}  // namespace sluice::kernels
