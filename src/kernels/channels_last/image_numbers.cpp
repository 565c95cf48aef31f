// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/channels_last/image_loops.hpp"
#include "kernels/channels_last/image_program.hpp"

namespace sluice::kernels {

std::size_t image_numbers::place(std::size_t floats) {
    const std::size_t at = all_.size();
    all_.resize(at + (floats + image_lane - 1) / image_lane * image_lane);
    return at;
}

// For each group its panels: [height][width][channels][lanes * 16] weights, then lanes * 16 biases.
std::size_t image_numbers::add_filters(const float* filters, const float* bias, std::size_t count, std::size_t groups,
                                       std::size_t channels_of_group, const size_2d& window) {
    const std::size_t of_group = count / groups, taps = window.height * window.width;
    const std::size_t of_filter = taps * channels_of_group;
    const std::size_t begin = place(groups * image_lanes(of_group) * image_lane * (of_filter + 1));
    float* to = all_.data() + begin;
    for (std::size_t group = 0; group < groups; ++group) {
        for (std::size_t lanes = image_lanes(of_group), first = 0; lanes != 0;) {
            const std::size_t columns = panel_lanes(lanes) * image_lane, some = std::min(columns, of_group - first);
            const std::size_t filter = group * of_group + first;
            for (std::size_t i = 0; i < some; ++i) {
                const float* const from = filters + (filter + i) * of_filter;
                for (std::size_t tap = 0; tap < taps; ++tap)
                    for (std::size_t c = 0; c < channels_of_group; ++c)
                        to[(tap * channels_of_group + c) * columns + i] = from[c * taps + tap];
            }
            to += of_filter * columns;
            if (bias != nullptr) std::copy_n(bias + filter, some, to);
            to += columns;
            first += some;
            lanes -= panel_lanes(lanes);
        }
    }
    return begin;
}

// [height][width][lanes * 16] weights, then lanes * 16 biases.
std::size_t image_numbers::add_channel_filters(const float* filters, const float* bias, std::size_t channels,
                                               const size_2d& window) {
    const std::size_t taps = window.height * window.width, columns = image_lanes(channels) * image_lane;
    const std::size_t begin = place((taps + 1) * columns);
    float* const to = all_.data() + begin;
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t tap = 0; tap < taps; ++tap) to[tap * columns + c] = filters[c * taps + tap];
    if (bias != nullptr) std::copy_n(bias, channels, to + taps * columns);
    return begin;
}

std::size_t image_numbers::add_factors(const std::vector<float>& factors, const std::vector<float>& addends) {
    const std::size_t columns = image_lanes(factors.size()) * image_lane, begin = place(2 * columns);
    std::ranges::copy(factors, all_.begin() + static_cast<std::ptrdiff_t>(begin));
    std::ranges::copy(addends, all_.begin() + static_cast<std::ptrdiff_t>(begin + columns));
    return begin;
}

}  // namespace sluice::kernels
