// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/resident_plan.hpp"

#include <algorithm>
#include <cstring>

#include "sluice/base/half.hpp"

namespace sluice::kernels {
namespace {

static_assert(most_resident_layers == sluice::detail::most_fused_layers);

std::uint32_t divided_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }
std::uint32_t rounded_up(std::uint32_t a, std::uint32_t to) { return divided_up(a, to) * to; }

// Hands out the shared memory of a block.
struct byte_counter {
    std::uint32_t bytes = 0;
    std::uint32_t take(std::uint32_t wanted) {
        const std::uint32_t at = bytes;
        bytes += rounded_up(wanted, 16);
        return at;
    }
};

// The input at a place of the operand. A block keeps each word of a request as 8 elements, the last of which is 0; so
// it stores a word at once. Later layers have the inputs one after the other.
std::size_t input_at(std::size_t place, bool is_first_layer) {
    if (!is_first_layer) return place;
    return place % 8 == 7 ? ~std::size_t{0} : place / 8 * resident_word_elements + place % 8;
}

// One tile of 16 outputs by 16 places of the operand in the order in which the lanes of a warp take it: 16 bytes each.
// The slice of `inputs` begins at `first_input`.
template <typename T>
void pack_tile(std::byte* to, const mlp_layer& layer, std::size_t first_output, std::size_t first_place,
               std::size_t first_input, std::size_t inputs, bool is_first_layer) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
        for (std::size_t i = 0; i < 8; ++i) {
            const std::size_t part = i / 2;
            const std::size_t output = first_output + lane / 4 + part % 2 * 8;
            const std::size_t input = input_at(first_place + lane % 4 * 2 + part / 2 * 8 + i % 2, is_first_layer);
            const bool is_real = output < layer.out_features && input < inputs;
            const T value(is_real ? layer.weight[output * layer.in_features + first_input + input] : 0.0F);
            std::memcpy(to + (lane * 8 + i) * sizeof(T), &value, sizeof(T));
        }
    }
}

}  // namespace

resident_layout plan_resident(const std::vector<mlp_layer>& layers, std::uint32_t blocks, std::uint32_t rows) {
    constexpr std::uint32_t tile_bytes = resident_tile * resident_tile * 2;
    resident_layout made;
    made.blocks = blocks;
    made.rows = rows;
    made.layers = static_cast<std::uint32_t>(layers.size());
    made.words = divided_up(resident_words_of(static_cast<std::uint32_t>(layers[0].in_features)), blocks);
    byte_counter room;
    std::uint32_t warps = divided_up(made.words * rows, 32);
    std::uint32_t slice = made.words * resident_word_elements;
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        resident_layer& it = made.layer[i];
        const bool is_last = i + 1 == made.layers;
        it.inputs = static_cast<std::uint32_t>(layers[i].in_features);
        it.outputs = static_cast<std::uint32_t>(layers[i].out_features);
        it.after = layers[i].after;
        it.slice = slice;
        it.sources = divided_up(it.inputs, slice);
        it.steps = divided_up(i == 0 ? made.words * 8 : slice, resident_tile);
        if (blocks > 1) it.steps = resident_regular_steps(it.steps);
        it.tiles = divided_up(it.outputs, resident_tile);
        it.next_tiles = is_last ? it.tiles : divided_up(it.tiles, blocks);
        it.operand_pitch = it.steps * resident_tile + 8;  // so that 8 rows lie in different banks
        it.weights = room.take(it.tiles * it.steps * tile_bytes);
        warps = std::max(warps, it.tiles);
        slice = it.next_tiles * resident_tile;
    }
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        made.layer[i].biases = room.take(made.layer[i].next_tiles * resident_tile * 4);
        made.layer[i].targets = room.take(made.layer[i].tiles * 4);
    }
    made.image_bytes = room.bytes;
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        resident_layer& it = made.layer[i];
        // A lane of one block has whole sums.
        if (blocks > 1) it.parts = room.take(blocks * made.pairs() * it.next_tiles * 32 * 4);
        // The tensor cores read 8 rows of each step, but only those that were asked for are used.
        it.operand = room.take(most_resident_rows * it.operand_pitch * 2);
    }
    const std::uint32_t results = rows * made.layer[made.layers - 1].outputs;
    made.results = room.take(results * 4);
    made.answer = room.take((results + resident_word_elements) * 2);  // whole words
    made.shared_bytes = room.bytes;
    made.threads = 32 * std::clamp(warps, 4U, 16U);
    return made;
}

resident_layout plan_resident_f32(const std::vector<mlp_layer>& layers, std::uint32_t rows) {
    resident_layout made;
    made.blocks = 1;
    made.rows = rows;
    made.layers = static_cast<std::uint32_t>(layers.size());
    made.threads = 256;
    byte_counter room;
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        resident_layer& it = made.layer[i];
        const auto inputs = static_cast<std::uint32_t>(layers[i].in_features);
        const auto outputs = static_cast<std::uint32_t>(layers[i].out_features);
        it.after = layers[i].after;
        it.steps = divided_up(inputs, resident_tile);
        it.inputs = 2 * inputs;
        it.outputs = 2 * outputs;
        it.slice = it.operand_pitch = 2 * it.steps * resident_tile;
        if (i == 0) made.words = resident_words_of(it.inputs);
        it.sources = 1;
        it.weights = room.take(outputs * resident_f32_pitch(it.steps) * 4);
        it.biases = room.take(outputs * 4);
    }
    made.image_bytes = room.bytes;
    for (std::uint32_t i = 0; i < made.layers; ++i)
        made.layer[i].operand = room.take(rows * made.layer[i].operand_pitch * 2);
    made.results = made.answer =
        room.take((rows * made.layer[made.layers - 1].outputs + resident_word_elements) * 2);  // whole words
    made.shared_bytes = room.bytes;
    return made;
}

template <>
std::vector<std::byte> pack_resident<float>(const std::vector<mlp_layer>& layers, const resident_layout& layout) {
    std::vector<std::byte> image(layout.image_bytes);
    for (std::uint32_t i = 0; i < layout.layers; ++i) {
        const mlp_layer& from = layers[i];
        const std::size_t pitch = resident_f32_pitch(layout.layer[i].steps);
        for (std::size_t output = 0; output < from.out_features; ++output) {
            std::memcpy(image.data() + layout.layer[i].weights + output * pitch * sizeof(float),
                        &from.weight[output * from.in_features], from.in_features * sizeof(float));
        }
        if (!from.bias.empty())
            std::memcpy(image.data() + layout.layer[i].biases, from.bias.data(), from.bias.size() * sizeof(float));
    }
    return image;
}

template <typename T>
std::vector<std::byte> pack_resident(const std::vector<mlp_layer>& layers, const resident_layout& layout) {
    std::vector<std::byte> image(std::size_t{layout.blocks} * layout.image_bytes);
    for (std::uint32_t block = 0; block < layout.blocks; ++block) {
        std::byte* const mine = image.data() + std::size_t{block} * layout.image_bytes;
        for (std::uint32_t i = 0; i < layout.layers; ++i) {
            const resident_layer& it = layout.layer[i];
            const std::size_t first = std::min<std::size_t>(std::size_t{block} * it.slice, it.inputs);
            const std::size_t inputs = std::min<std::size_t>(it.slice, it.inputs - first);
            for (std::uint32_t tile = 0; tile < it.tiles; ++tile) {
                for (std::uint32_t step = 0; step < it.steps; ++step) {
                    pack_tile<T>(mine + it.weights + std::size_t{512} * (tile * it.steps + step), layers[i],
                                 std::size_t{tile} * resident_tile, std::size_t{step} * resident_tile, first, inputs,
                                 i == 0);
                }
                const std::uint32_t to = tile / it.next_tiles;
                const std::uint32_t target = to * 65536 + tile % it.next_tiles;
                std::memcpy(mine + it.targets + std::size_t{4} * tile, &target, 4);
            }
            if (layers[i].bias.empty()) continue;
            const std::size_t places = std::size_t{it.next_tiles} * resident_tile, first_output = block * places;
            for (std::size_t k = 0; k < places && first_output + k < it.outputs; ++k)
                std::memcpy(mine + it.biases + 4 * k, &layers[i].bias[first_output + k], 4);
        }
    }
    return image;
}

template std::vector<std::byte> pack_resident<half>(const std::vector<mlp_layer>&, const resident_layout&);
template std::vector<std::byte> pack_resident<bfloat16>(const std::vector<mlp_layer>&, const resident_layout&);

}  // namespace sluice::kernels
