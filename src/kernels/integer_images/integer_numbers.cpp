// SPDX-License-Identifier: Apache-2.0
// How the weights of integer programs are in memory.
#include <cstring>

#include "kernels/integer_images/integer_program.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t panel_filters = 16;

std::size_t whole_panels(std::size_t filters) { return (filters + panel_filters - 1) / panel_filters * panel_filters; }

std::int32_t sum_of_weights(const integer_layer& layer, std::size_t filter) {
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < layer.in_features; ++k) sum += layer.weight[filter * layer.in_features + k];
    return sum;
}

}  // namespace

filter_runs runs_of(const image_window& window, std::size_t channels_of_group, std::size_t groups) noexcept {
    const bool is_joined = groups == 1 && window.dilation.width == 1;
    return {window.size.height, is_joined ? 1 : window.size.width,
            is_joined ? window.size.width * channels_of_group : channels_of_group};
}

filter_places places_of_filters(std::size_t weight_bytes, std::size_t filters) noexcept {
    const std::size_t each = aligned_bytes(whole_panels(filters) * sizeof(float)), first = aligned_bytes(weight_bytes);
    return {first, first + each, first + 2 * each, first + 3 * each};
}

std::size_t channel_filter_bytes(const image_window& window, std::size_t channels) noexcept {
    return (window.size.height * window.size.width + 3) / 4 * whole_panels(channels) * 4;
}

// All but the weights. Sums are modulo 2^32, and so is what they begin with.
std::size_t integer_numbers::add_group(const integer_layer& layer, std::size_t weight_bytes, const byte_quantity& x) {
    const std::size_t first = bytes_.size();
    const filter_places at = places_of_filters(weight_bytes, layer.out_features);
    bytes_.resize(first + at.end);
    std::byte* const to = bytes_.data() + first;
    for (std::size_t f = 0; f < layer.out_features; ++f) {
        const float factor = x.scale * layer.steps[f];
        const std::uint32_t start =
            0u - static_cast<std::uint32_t>(x.zero) * static_cast<std::uint32_t>(sum_of_weights(layer, f));
        std::memcpy(to + at.factors + f * sizeof(factor), &factor, sizeof(factor));
        std::memcpy(to + at.starts + f * sizeof(start), &start, sizeof(start));
        if (!layer.bias.empty()) std::memcpy(to + at.biases + f * sizeof(float), &layer.bias[f], sizeof(float));
    }
    return first;
}

std::size_t integer_numbers::add_filters(const std::vector<integer_layer>& layers, const image_window& window,
                                         const byte_quantity& x) {
    const std::size_t place = bytes_.size(), size = window.size.height * window.size.width;
    for (const integer_layer& layer : layers) {
        const std::size_t channels = layer.in_features / size;
        const filter_runs runs = runs_of(window, channels, layers.size());
        const std::size_t panels = whole_panels(layer.out_features) / panel_filters;
        const std::size_t first = add_group(layer, panels * runs.panel_bytes(), x);
        std::byte* const to = bytes_.data() + first;
        const bool is_joined = runs.length != channels;
        const std::int8_t* from = layer.weight.data();
        for (std::size_t f = 0; f < layer.out_features; ++f) {
            std::byte* const filter = to + f / panel_filters * runs.panel_bytes() + f % panel_filters * 4;
            for (std::size_t c = 0; c < channels; ++c) {
                for (std::size_t row = 0; row < window.size.height; ++row) {
                    for (std::size_t column = 0; column < window.size.width; ++column) {
                        const std::size_t run = is_joined || runs.columns == 1 ? row : row * runs.columns + column;
                        const std::size_t k = is_joined ? column * channels + c : c;
                        filter[(run * runs.fours() + k / 4) * 4 * panel_filters + k % 4] =
                            static_cast<std::byte>(*from++);
                    }
                }
            }
        }
    }
    return place;
}

std::size_t integer_numbers::add_channel_filters(const std::vector<integer_layer>& layers, const image_window& window,
                                                 const byte_quantity& x) {
    const std::size_t size = window.size.height * window.size.width, channels = layers.size();
    integer_layer all{.in_features = size, .out_features = channels, .weight = {}, .steps = {}, .bias = {}};
    for (const integer_layer& each : layers) {
        all.weight.insert(all.weight.end(), each.weight.begin(), each.weight.end());
        all.steps.push_back(each.steps.front());
        all.bias.push_back(each.bias.empty() ? 0.0f : each.bias.front());
    }
    const std::size_t columns = whole_panels(channels);
    const std::size_t place = add_group(all, channel_filter_bytes(window, channels), x);
    std::byte* const to = bytes_.data() + place;
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t w = 0; w < size; ++w)
            to[(w / 4 * columns + c) * 4 + w % 4] = static_cast<std::byte>(all.weight[c * size + w]);
    return place;
}

std::size_t integer_numbers::add_table(const std::array<std::uint8_t, 256>& table) {
    const std::size_t place = bytes_.size();
    bytes_.resize(place + aligned_bytes(table.size()));
    std::memcpy(bytes_.data() + place, table.data(), table.size());
    return place;
}

}  // namespace sluice::kernels
