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

// The tensor cores make 8 outputs at a time, which go to one block.
std::uint32_t slice_of(std::uint32_t inputs, std::uint32_t blocks) { return rounded_up(divided_up(inputs, blocks), 8); }

// One tile of 16 outputs by 16 inputs in the order in which the lanes of a warp take it: 16 bytes each.
template <typename T>
void pack_tile(std::byte* to, const mlp_layer& layer, std::size_t first_output, std::size_t first_input,
               std::size_t end_of_inputs) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
        for (std::size_t i = 0; i < 8; ++i) {
            const std::size_t part = i / 2;
            const std::size_t output = first_output + lane / 4 + part % 2 * 8;
            const std::size_t input = first_input + lane % 4 * 2 + part / 2 * 8 + i % 2;
            const bool is_real = output < layer.out_features && input < end_of_inputs;
            const T value(is_real ? layer.weight[output * layer.in_features + input] : 0.0F);
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
    std::uint32_t bytes = 0, most_tiles = 0;
    const auto take = [&](std::uint32_t wanted) {
        const std::uint32_t at = bytes;
        bytes += rounded_up(wanted, 16);
        return at;
    };
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        resident_layer& it = made.layer[i];
        it.inputs = static_cast<std::uint32_t>(layers[i].in_features);
        it.outputs = static_cast<std::uint32_t>(layers[i].out_features);
        it.after = layers[i].after;
        it.slice = slice_of(it.inputs, blocks);
        it.sources = divided_up(it.inputs, it.slice);
        it.steps = divided_up(it.slice, resident_tile);
        it.tiles = divided_up(it.outputs, resident_tile);
        it.next_slice = i + 1 == made.layers ? rounded_up(it.outputs, 2) : slice_of(it.outputs, blocks);
        it.operand_pitch = it.steps * resident_tile + 8;  // so that 8 rows lie in different banks
        it.weights = take(it.tiles * it.steps * tile_bytes);
        most_tiles = std::max(most_tiles, it.tiles);
    }
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        made.layer[i].biases = take(made.layer[i].next_slice * 4);
        made.layer[i].targets = take(made.layer[i].tiles * 2 * 4);
    }
    made.image_bytes = bytes;
    for (std::uint32_t i = 0; i < made.layers; ++i) {
        resident_layer& it = made.layer[i];
        it.parts = take(it.sources * rows * it.next_slice * 8);
        // The tensor cores read 8 rows of each step, but only those that were asked for are used.
        it.operand = take(most_resident_rows * it.operand_pitch * 2);
    }
    made.results = take(rows * made.layer[made.layers - 1].outputs * 4);
    made.shared_bytes = bytes;
    made.threads = 32 * std::clamp(most_tiles, 4U, 16U);
    return made;
}

template <typename T>
std::vector<std::byte> pack_resident(const std::vector<mlp_layer>& layers, const resident_layout& layout) {
    std::vector<std::byte> image(std::size_t{layout.blocks} * layout.image_bytes);
    for (std::uint32_t block = 0; block < layout.blocks; ++block) {
        std::byte* const mine = image.data() + std::size_t{block} * layout.image_bytes;
        for (std::uint32_t i = 0; i < layout.layers; ++i) {
            const resident_layer& it = layout.layer[i];
            const std::size_t first = std::size_t{block} * it.slice;
            const std::size_t end = std::min<std::size_t>(first + it.slice, it.inputs);
            for (std::uint32_t tile = 0; tile < it.tiles; ++tile) {
                for (std::uint32_t step = 0; step < it.steps; ++step) {
                    pack_tile<T>(mine + it.weights + std::size_t{512} * (tile * it.steps + step), layers[i],
                                 std::size_t{tile} * resident_tile, first + std::size_t{step} * resident_tile, end);
                }
            }
            for (std::uint32_t group = 0; group < 2 * it.tiles; ++group) {
                const std::uint32_t to = 8 * group / it.next_slice;
                const std::uint32_t target = to * 65536 + 8 * group - to * it.next_slice;
                std::memcpy(mine + it.targets + std::size_t{4} * group, &target, 4);
            }
            if (layers[i].bias.empty()) continue;
            const std::size_t first_output = std::size_t{block} * it.next_slice;
            for (std::size_t k = 0; k < it.next_slice && first_output + k < it.outputs; ++k)
                std::memcpy(mine + it.biases + 4 * k, &layers[i].bias[first_output + k], 4);
        }
    }
    return image;
}

template std::vector<std::byte> pack_resident<half>(const std::vector<mlp_layer>&, const resident_layout&);
template std::vector<std::byte> pack_resident<bfloat16>(const std::vector<mlp_layer>&, const resident_layout&);

}  // namespace sluice::kernels
