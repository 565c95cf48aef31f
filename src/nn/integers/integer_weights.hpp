// SPDX-License-Identifier: Apache-2.0
// integer_weights: what passes know of products and convolutions of bytes while they make stretches of them.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/rounded_layers/quantized_product.hpp"
#include "nn/operators/dense_layers.hpp"
#include "nn/prepared_graph.hpp"
#include "sluice/io/dtype.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// The layers of each group, with weights in the order of the operator's: of a convolution channel, height, width.
using integer_weights = std::unordered_map<const operators::dense_layers*, std::vector<kernels::integer_layer>>;

// One number with its zero point, for all elements of a value.
struct byte_scale {
    float scale = 0;
    std::int32_t zero = 0;
    io::dtype type = io::dtype::u8;

    friend bool operator==(const byte_scale&, const byte_scale&) = default;
};
// Of a QuantizeLinear or DequantizeLinear of bytes with one scale, which is constant, normal and positive, and with a
// zero point, which says the type. None for others.
std::optional<byte_scale> byte_scale_of(const prepared_graph& in, const step& of);

// Whether it has one input with elements, each of which an element of the output is: MaxPool, Reshape.
bool only_moves(const step& of);

// Those that nothing reads any more.
void erase_unread_dequantizations(prepared_graph& in);

// DequantizeLinear, an operator that only moves or compares elements, and QuantizeLinear with the same numbers: the
// operator moves the bytes, which are the same.
void move_bytes(prepared_graph& in);

// Stretches of convolutions, poolings, layers and other operators of bytes become one command each. On a CPU. `from`:
// the network's model.
void fuse_integer_stretches(prepared_graph& in, const integer_weights& weights, const model& from,
                            execution_context& context);

}  // namespace sluice::nn::detail
