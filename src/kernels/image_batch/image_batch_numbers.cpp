// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/image_batch/image_batch.hpp"
#include "sluice/base/half.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t place_bytes = 256;

constexpr std::size_t rounded_up(std::size_t bytes) noexcept {
    return (bytes + place_bytes - 1) / place_bytes * place_bytes;
}

struct filter_sizes {
    std::size_t filters, channels;
};
filter_sizes sizes_of(std::size_t filters, std::size_t groups, std::size_t channels_of_group) noexcept {
    if (groups != 1) return {filters, channels_of_group};
    return {padded_channels(filters), padded_channels(channels_of_group)};
}

}  // namespace

bool joins_groups(std::size_t groups, std::size_t filters, std::size_t channels_of_group) noexcept {
    constexpr std::size_t most_groups = 8;
    if (groups == 1) return false;
    const bool fit = filters % 8 == 0 && filters / groups % 8 == 0 && channels_of_group % 8 == 0;
    return groups <= most_groups || !fit;
}

filter_form filter_form_of(const image_step& step) noexcept {
    const auto [filters, channels] = sizes_of(step.out.channels, step.groups, step.in.channels / step.groups);
    std::size_t taps = step.window.size.height * step.window.size.width;
    if (step.what == image_work::convolve_transposed) {
        const size_2d of_phase = taps_of_phase(step.window);
        taps = step.window.stride.height * step.window.stride.width * of_phase.height * of_phase.width;
    }
    return {filters, channels, rounded_up(filters * taps * channels * short_bytes)};
}

size_2d taps_of_phase(const image_window& window) noexcept {
    const auto divided = [](std::size_t x, std::size_t by) { return (x + by - 1) / by; };
    return {divided(window.size.height, window.stride.height), divided(window.size.width, window.stride.width)};
}

std::size_t batch_numbers::place(std::size_t bytes) {
    const std::size_t at = all_.size();
    all_.resize(at + rounded_up(bytes));
    return at;
}

void batch_numbers::write(std::size_t byte, std::size_t element, float value) {
    const std::uint16_t bits = type_ == short_type::f16 ? half(value).bits() : bfloat16(value).bits();
    const float rounded = type_ == short_type::f16 ? float{half::from_bits(bits)} : float{bfloat16::from_bits(bits)};
    are_finite_ = are_finite_ && std::isfinite(rounded);
    std::memcpy(all_.data() + byte + element * short_bytes, &bits, short_bytes);
}

std::size_t batch_numbers::add_filters(const std::vector<float>& filters, const std::vector<float>& bias,
                                       std::size_t groups, std::size_t channels_of_group, const size_2d& window,
                                       std::size_t shuffled_groups) {
    const std::size_t count = bias.size(), taps = window.height * window.width;
    const bool is_joined = joins_groups(groups, count, channels_of_group);
    const auto [rows, channels] =
        sizes_of(count, is_joined ? 1 : groups, is_joined ? groups * channels_of_group : channels_of_group);
    const std::size_t biases = rounded_up(rows * taps * channels * short_bytes);
    const std::size_t begin = place(biases + rows * short_bytes);
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t first = is_joined ? k / (count / groups) * channels_of_group : 0;
        const std::size_t part = shuffled_groups != 0 ? count / shuffled_groups : 0;
        const std::size_t to = shuffled_groups != 0 ? k % part * shuffled_groups + k / part : k;
        for (std::size_t c = 0; c < channels_of_group; ++c)
            for (std::size_t tap = 0; tap < taps; ++tap)
                write(begin, (to * taps + tap) * channels + first + c,
                      filters[(k * channels_of_group + c) * taps + tap]);
        write(begin + biases, to, bias[k]);
    }
    return begin;
}

std::size_t batch_numbers::add_transposed_filters(const std::vector<float>& filters, const std::vector<float>& bias,
                                                  const size_2d& window, const size_2d& stride) {
    const std::size_t count = bias.size(), of_filter = window.height * window.width;
    const std::size_t inputs = filters.size() / (count * of_filter);
    const auto [rows, channels] = sizes_of(count, 1, inputs);
    const size_2d taps = taps_of_phase({.size = window, .stride = stride});
    const std::size_t of_phase = rows * taps.height * taps.width * channels;
    const std::size_t biases = rounded_up(stride.height * stride.width * of_phase * short_bytes);
    const std::size_t begin = place(biases + rows * short_bytes);
    for (std::size_t y = 0; y < window.height; ++y) {
        for (std::size_t x = 0; x < window.width; ++x) {
            const std::size_t phase = y % stride.height * stride.width + x % stride.width;
            const std::size_t row = taps.height - 1 - y / stride.height, column = taps.width - 1 - x / stride.width;
            for (std::size_t k = 0; k < count; ++k) {
                const std::size_t to = phase * of_phase + ((k * taps.height + row) * taps.width + column) * channels;
                for (std::size_t c = 0; c < inputs; ++c)
                    write(begin, to + c, filters[((c * count + k) * window.height + y) * window.width + x]);
            }
        }
    }
    for (std::size_t k = 0; k < count; ++k) write(begin + biases, k, bias[k]);
    return begin;
}

// The first are [columns][rows], and are written as [rows][columns].
std::size_t batch_numbers::add_floats(const std::vector<float>& first, std::size_t rows,
                                      const std::vector<float>& last) {
    const std::size_t columns = padded_channels(last.size());
    std::vector<float> made((rows + 1) * columns);
    for (std::size_t c = 0; c < last.size(); ++c) {
        for (std::size_t row = 0; row < rows; ++row) made[row * columns + c] = first[c * rows + row];
        made[rows * columns + c] = last[c];
    }
    are_finite_ = are_finite_ && std::ranges::all_of(made, [](float each) { return std::isfinite(each); });
    const std::size_t begin = place(made.size() * sizeof(float));
    std::memcpy(all_.data() + begin, made.data(), made.size() * sizeof(float));
    return begin;
}

std::size_t batch_numbers::add_channel_filters(const std::vector<float>& filters, const std::vector<float>& bias,
                                               const size_2d& window) {
    return add_floats(filters, window.height * window.width, bias);
}

std::size_t batch_numbers::add_factors(const std::vector<float>& factors, const std::vector<float>& addends) {
    return add_floats(factors, 1, addends);
}

}  // namespace sluice::kernels
