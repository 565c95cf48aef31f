// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one safetensors file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/io/safetensors.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/nn/to_layers.hpp"

namespace sluice::nn::fuzz {

// Reads the file, checks what safetensors_view guarantees, and reads it as a network. A refusal (file_error) is
// correct; any other exception escapes, and a broken guarantee aborts.
inline void read_safetensors(std::span<const std::byte> file) {
    try {
        const io::safetensors_view view(file, "fuzz");
        // The tensors are contiguous up to the end of the file.
        const std::byte* end = view.tensors().empty() ? nullptr : view.tensors().front().bytes.data();
        for (const io::tensor_entry& tensor : view.tensors()) {
            if (tensor.bytes.data() != end || tensor.bytes.data() != file.data() + tensor.offset) std::abort();
            if (io::byte_count(tensor.shape, tensor.type) != tensor.bytes.size()) std::abort();
            if (view.find(tensor.name) != &tensor) std::abort();
            end += tensor.bytes.size();
        }
        if (end != nullptr && end != file.data() + file.size()) std::abort();

        const bool says = view.metadata().contains("activation");
        const model network = load_safetensors(view, {.hidden = says ? std::nullopt : std::optional(activation::relu)});
        for (const mlp_layer& layer : to_layers(network)) {
            if (layer.weight.size() != layer.in_features * layer.out_features) std::abort();
            if (!layer.bias.empty() && layer.bias.size() != layer.out_features) std::abort();
        }
    } catch (const file_error&) {
    }
}

}  // namespace sluice::nn::fuzz
