// SPDX-License-Identifier: Apache-2.0
// byte_group: DequantizeLinear of each input, an operator on numbers, perhaps ReLU, and QuantizeLinear: from bytes to
// bytes. Or Concat of bytes. In a stretch of bytes it is one step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/integers/integer_weights.hpp"
#include "nn/prepared_graph.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

enum class byte_operator : unsigned char {
    sum,
    product,
    average,  // of windows
    map,      // of each element: operators with one input that is no constant
    join      // along the channels
};
using byte_table = std::array<std::uint8_t, 256>;  // signed bytes are 128 larger

struct byte_group {
    struct part {
        slot bytes = no_slot;
        std::optional<byte_scale> scale;  // none: Concat of bytes
    };

    byte_operator what{};
    std::vector<std::size_t> steps;  // in order; the last one gives the bytes
    std::size_t core = 0;            // the operator's; of map the last one's
    std::vector<part> parts;
    std::optional<byte_scale> gives;  // the same
    bool has_relu = false;
};

// By the step that gives the bytes. Nothing else reads what a group computes in between.
std::vector<std::optional<byte_group>> byte_groups(const prepared_graph& in);

// Where several steps read what a DequantizeLinear gives, each that could be of a group or could move the bytes gets
// one of its own.
void divide_dequantizations(prepared_graph& in);

// Of map. None where the host cannot compute it. Of a part of a join.
std::optional<byte_table> table_of(const prepared_graph& in, const byte_group& of, const model& from);
byte_table table_between(const std::optional<byte_scale>& from, const std::optional<byte_scale>& to);

}  // namespace sluice::nn::detail
