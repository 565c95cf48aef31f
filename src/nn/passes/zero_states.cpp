// SPDX-License-Identifier: Apache-2.0
// Recurrent layers that begin with zeros, as exporters write them: a tensor of zeros whose shape has the batch. The
// layers need its shape only, and nothing computes it. Only where 0 times each weight of the state is 0: with one that
// is infinite or no number, the first step is no number either.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "nn/operators/recurrent_from_zeros.hpp"
#include "nn/passes/passes.hpp"
#include "nn/passes/steps.hpp"
#include "sluice/base/half.hpp"

namespace sluice::nn::detail {
namespace {

constexpr std::size_t largest_constant = std::size_t{1} << 20;  // bytes that are looked at

bool are_zero(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0}; });
}

bool is_zero_constant(const any_tensor& value) {
    return value.is_on_host() && value.size_bytes() <= largest_constant && are_zero(value.bytes());
}

bool fills_with_zeros(const step& of) {
    if (!is(of, "ConstantOfShape")) return false;
    const auto* const value = of.from->find<constant>("value");
    return value == nullptr || is_zero_constant(any_tensor(*value));
}

// What it gives are elements of its first input.
bool moves_elements(const step& of) {
    static constexpr std::array<std::string_view, 10> known{"Expand", "Flatten", "Identity", "Reshape",   "Slice",
                                                            "Split",  "Squeeze", "Tile",     "Transpose", "Unsqueeze"};
    return std::ranges::any_of(known, [&](std::string_view op) { return is(of, op); });
}

bool may_begin_with_zeros(const step& of) {
    return !of.is_on_host && of.layers == nullptr && of.stretch == nullptr &&
           (is(of, "RNN") || is(of, "GRU") || is(of, "LSTM"));
}

template <typename T>
bool are_finite(const any_tensor& numbers) {
    return std::ranges::all_of(numbers.values<T>(), [](T each) { return std::isfinite(static_cast<double>(each)); });
}

bool has_finite_weights(const prepared_graph& in, const step& of) {
    if (of.inputs.size() < 3 || of.inputs[2] == no_slot) return false;
    const auto found = in.constants.find(of.inputs[2]);
    if (found == in.constants.end() || !found->second.is_on_host()) return false;
    switch (found->second.type()) {
        case io::dtype::f16: return are_finite<half>(found->second);
        case io::dtype::bf16: return are_finite<bfloat16>(found->second);
        case io::dtype::f32: return are_finite<float>(found->second);
        case io::dtype::f64: return are_finite<double>(found->second);
        default: return false;
    }
}

std::vector<bool> zero_values(const prepared_graph& in) {
    std::vector<bool> are_zeros(in.slots, false);
    for (const auto& [at, value] : in.constants) are_zeros[at] = is_zero_constant(value);
    for (const step& each : in.steps) {
        if (!fills_with_zeros(each) &&
            !(moves_elements(each) && each.inputs[0] != no_slot && are_zeros[each.inputs[0]]))
            continue;
        for (const slot one : each.outputs)
            if (one != no_slot) are_zeros[one] = true;
    }
    return are_zeros;
}

// Whether all of its states are such; at least one is there.
bool begins_with_zeros(const step& of, const std::vector<bool>& are_zeros) {
    bool has_one = false;
    for (const std::size_t input : {5, 6}) {
        if (input >= of.inputs.size() || of.inputs[input] == no_slot) continue;
        if (!are_zeros[of.inputs[input]]) return false;
        has_one = true;
    }
    return has_one;
}

}  // namespace

void drop_zero_states(prepared_graph& in) {
    for (step& each : in.steps)
        for (const auto& [from, inner] : each.inner) drop_zero_states(*inner);
    const std::vector<bool> are_zeros = zero_values(in);
    for (step& each : in.steps)
        if (may_begin_with_zeros(each) && begins_with_zeros(each, are_zeros) && has_finite_weights(in, each))
            each.what = &operators::recurrent_from_zeros(*each.what);
}

}  // namespace sluice::nn::detail
