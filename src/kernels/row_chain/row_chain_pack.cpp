// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/row_chain/row_chain.hpp"
#include "sluice/base/half.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t chain_tile = 16, chain_lanes = 32, chain_alignment = 128;

std::size_t whole(std::size_t count, std::size_t of) { return (count + of - 1) / of * of; }

template <typename T>
void add_chain_weights(const mlp_layer& from, std::vector<std::byte>& image) {
    constexpr std::size_t chain_of_lane = 16 / sizeof(T), chain_chunk = 4 * chain_of_lane;
    const std::size_t chunks = whole(from.in_features, chain_chunk) / chain_chunk;
    const std::size_t tiles = whole(from.out_features, 2 * chain_tile) / chain_tile;
    std::vector<T> made(tiles * chunks * 2 * chain_lanes * chain_of_lane, T(0.0f));
    for (std::size_t o = 0; o < from.out_features; ++o) {
        for (std::size_t i = 0; i < from.in_features; ++i) {
            const std::size_t in_tile = o % chain_tile, lane = in_tile % 8 * 4 + i % chain_chunk / chain_of_lane;
            const std::size_t place = (o / chain_tile * chunks + i / chain_chunk) * 2 + in_tile / 8;
            made[(place * chain_lanes + lane) * chain_of_lane + i % chain_of_lane] =
                T(from.weight[o * from.in_features + i]);
        }
    }
    const auto bytes = std::as_bytes(std::span(made));
    image.insert(image.end(), bytes.begin(), bytes.end());
}

// Returns where they are.
std::uint64_t add_chain_numbers(const std::vector<float>& from, std::size_t outputs, std::vector<std::byte>& image) {
    if (from.empty()) return 0;
    std::vector<float> made = from;
    made.resize(whole(outputs, 2 * chain_tile), 0.0f);
    const std::uint64_t at = image.size();
    const auto bytes = std::as_bytes(std::span(made));
    image.insert(image.end(), bytes.begin(), bytes.end());
    return at;
}

std::vector<float> rounded_to(io::dtype type, std::vector<float> numbers) {
    for (float& each : numbers) {
        if (type == io::dtype::f16) each = static_cast<float>(half(each));
        if (type == io::dtype::bf16) each = static_cast<float>(bfloat16(each));
    }
    return numbers;
}

bool fits_chain(const row_chain_part& part) {
    const mlp_layer& of = part.layer;
    const auto is_of_outputs = [&](const std::vector<float>& each) { return each.size() == of.out_features; };
    return of.in_features > 0 && of.out_features > 0 && of.in_features <= widest_chain_layer &&
           of.out_features <= widest_chain_layer && of.weight.size() == of.in_features * of.out_features &&
           (of.bias.empty() || is_of_outputs(of.bias)) && of.after != activation::softmax &&
           (!part.norm || (is_of_outputs(part.norm->scale) && part.norm->after != activation::softmax &&
                           (part.norm->shift.empty() || is_of_outputs(part.norm->shift))));
}

}  // namespace

std::size_t row_chain_form::widest() const noexcept {
    std::size_t made = 0;
    for (std::size_t i = 0; i < count; ++i) made = std::max<std::size_t>({made, layers[i].inputs, layers[i].outputs});
    return made;
}

std::size_t row_chain_form::weight_bytes() const noexcept {
    std::size_t made = 0;
    for (std::size_t i = 0; i < count; ++i) made += std::size_t{layers[i].inputs} * layers[i].outputs;
    return made * (static_cast<io::dtype>(type) == io::dtype::f32 ? 4 : 2);
}

std::optional<packed_row_chain> pack_row_chain(const std::vector<row_chain_part>& parts, io::dtype type) {
    const bool is_known = type == io::dtype::f32 || type == io::dtype::f16 || type == io::dtype::bf16;
    if (parts.empty() || parts.size() > most_chain_layers || !is_known) return {};
    packed_row_chain made{.form = {.type = static_cast<std::uint64_t>(type),
                                   .count = parts.size(),
                                   .numbers = 0,
                                   .number_bytes = 0,
                                   .layers = {}},
                          .image = {}};
    made.image.resize(row_chain_head);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const mlp_layer& from = parts[i].layer;
        if (!fits_chain(parts[i]) || (i > 0 && from.in_features != parts[i - 1].layer.out_features)) return {};
        row_chain_layer& to = made.form.layers[i];
        to.inputs = static_cast<std::uint32_t>(from.in_features);
        to.outputs = static_cast<std::uint32_t>(from.out_features);
        to.after_product = static_cast<std::uint32_t>(from.after);
        to.weights = made.image.size();
        type == io::dtype::f32   ? add_chain_weights<float>(from, made.image)
        : type == io::dtype::f16 ? add_chain_weights<half>(from, made.image)
                                 : add_chain_weights<bfloat16>(from, made.image);
        made.image.resize(whole(made.image.size(), chain_alignment));
    }
    made.form.numbers = made.image.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        row_chain_layer& to = made.form.layers[i];
        to.bias = add_chain_numbers(rounded_to(type, parts[i].layer.bias), to.outputs, made.image);
        if (const auto& norm = parts[i].norm) {
            to.has_norm = 1;
            to.scale = add_chain_numbers(norm->scale, to.outputs, made.image);
            to.shift = add_chain_numbers(norm->shift, to.outputs, made.image);
            to.epsilon = norm->epsilon;
            to.after_norm = static_cast<std::uint32_t>(norm->after);
        }
    }
    made.form.number_bytes = made.image.size() - made.form.numbers;
    static_assert(sizeof(row_chain_form) <= row_chain_head && sizeof(row_chain_form) % 16 == 0);
    std::memcpy(made.image.data(), &made.form, sizeof(made.form));
    return made;
}

}  // namespace sluice::kernels
