// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one ONNX file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/to_layers.hpp"

namespace sluice::nn::fuzz {

// A refusal (file_error) is correct, and says nothing about whether the model is an MLP.
inline void check_operators_of(const model& network) {
    try {
        check_operators(network);
    } catch (const file_error&) {
    }
}

// Reads the file, checks what load_onnx guarantees, and reads it as an MLP. A refusal (file_error) is correct; any
// other exception escapes, and a broken guarantee aborts.
inline void read_onnx(std::span<const std::byte> file) {
    try {
        const model network = nn::read_onnx(file, "fuzz.onnx");
        for (const auto& [name, value] : network.body.constants) {
            if (io::byte_count(value.shape, value.type) != value.bytes->size()) std::abort();
            if (value.bytes->size() > file.size() * 8) std::abort();  // a varint of one byte is an element of eight
        }
        check(network);
        check_operators_of(network);
        for (const mlp_layer& layer : to_layers(network)) {
            if (layer.weight.size() != layer.in_features * layer.out_features) std::abort();
            if (!layer.bias.empty() && layer.bias.size() != layer.out_features) std::abort();
        }
    } catch (const file_error&) {
    }
}

}  // namespace sluice::nn::fuzz
