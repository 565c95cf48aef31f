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
    const std::size_t taps = step.window.size.height * step.window.size.width;
    return {filters, channels, rounded_up(filters * taps * channels * short_bytes)};
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
