// SPDX-License-Identifier: Apache-2.0
// What moves numbers that stand for bytes moves the bytes.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "nn/integers/integer_weights.hpp"
#include "nn/passes/dense_search.hpp"
#include "nn/passes/steps.hpp"

namespace sluice::nn::detail {
namespace {

bool is_plain(const step& of) {
    return !of.is_on_host && integer(of, "block_size", 0) == 0 && integer(of, "output_dtype", 0) == 0 &&
           integer(of, "precision", 0) == 0 && integer(of, "saturate", 1) == 1;
}

}  // namespace

// A byte stands for a larger number than another one if it is larger.
bool only_moves(const step& of) {
    constexpr std::array<std::string_view, 7> names{"Flatten", "MaxPool",   "Reshape",  "Slice",
                                                    "Squeeze", "Transpose", "Unsqueeze"};
    const auto given = std::ranges::count_if(of.outputs, [](slot each) { return each != no_slot; });
    return !of.is_on_host && given == 1 && of.outputs[0] != no_slot && of.inner.empty() &&
           std::ranges::any_of(names, [&](std::string_view each) { return is(of, each); });
}

std::optional<byte_scale> byte_scale_of(const prepared_graph& in, const step& of) {
    if ((!is(of, "QuantizeLinear") && !is(of, "DequantizeLinear")) || !is_plain(of) || of.inputs.size() < 3) return {};
    const auto constant = [&](slot value) -> const any_tensor* {
        const auto found = value == no_slot ? in.constants.end() : in.constants.find(value);
        return found != in.constants.end() && found->second.is_on_host() && found->second.elements() == 1 &&
                       found->second.shape().size() <= 1
                   ? &found->second
                   : nullptr;
    };
    const any_tensor *const scale = constant(of.inputs[1]), *const zero = constant(of.inputs[2]);
    if (scale == nullptr || zero == nullptr || scale->type() != io::dtype::f32) return {};
    if (zero->type() != io::dtype::u8 && zero->type() != io::dtype::i8) return {};
    const bool is_signed = zero->type() == io::dtype::i8;
    const byte_scale made{
        scale->values<float>()[0],
        is_signed ? std::int32_t{zero->values<std::int8_t>()[0]} : std::int32_t{zero->values<std::uint8_t>()[0]},
        zero->type()};
    // A byte that becomes a number is the same byte again.
    const bool is_usable = std::isnormal(made.scale) && made.scale > 0 && std::isfinite(made.scale * 256);
    return is_usable ? std::optional(made) : std::nullopt;
}

void erase_unread_dequantizations(prepared_graph& in) {
    const std::vector<std::size_t> readers = only_readers(in);
    std::erase_if(in.steps, [&](const step& each) {
        return is(each, "DequantizeLinear") && each.outputs[0] != no_slot && readers[each.outputs[0]] == no_step &&
               !in.needed_on_host[each.outputs[0]];
    });
}

void move_bytes(prepared_graph& in) {
    const std::vector<std::size_t> readers = only_readers(in), from = givers(in);
    std::vector<bool> is_left(in.steps.size(), true);
    for (std::size_t i = 0; i < in.steps.size(); ++i) {
        step& moves = in.steps[i];
        if (!is_left[i] || !only_moves(moves)) continue;
        const std::size_t before = moves.inputs[0] != no_slot ? from[moves.inputs[0]] : no_step;
        const std::size_t after = readers[moves.outputs[0]];
        if (before == no_step || after >= several_steps || readers[moves.inputs[0]] != i ||
            in.needed_on_host[moves.inputs[0]] || in.needed_on_host[moves.outputs[0]]) {
            continue;
        }
        step &opens = in.steps[before], &closes = in.steps[after];
        if (!is(opens, "DequantizeLinear") || !is(closes, "QuantizeLinear") || closes.inputs[0] != moves.outputs[0])
            continue;
        const auto a = byte_scale_of(in, opens), b = byte_scale_of(in, closes);
        if (!a || !b || !(*a == *b)) continue;
        moves.inputs[0] = opens.inputs[0];
        moves.outputs[0] = closes.outputs[0];
        note_joined(opens, moves);
        note_joined(closes, moves);
        is_left[before] = is_left[after] = false;
    }
    erase_steps(in, is_left);
}

}  // namespace sluice::nn::detail
