// What the fuzzer and the replay of its finds do with one safetensors file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "sluice/nn/mlp_model.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::nn::fuzz {

// Reads the file, checks that what it promises holds, and reads it as a network. Refusals are fine; anything else
// escapes or aborts.
inline void read_safetensors(std::span<const std::byte> file) {
    try {
        const safetensors_view view(file, "fuzz");
        // The tensors lie one behind the other, up to the end of the file.
        const std::byte* end = view.tensors().empty() ? nullptr : view.tensors().front().bytes.data();
        for (const tensor_entry& tensor : view.tensors()) {
            if (tensor.bytes.data() != end || tensor.bytes.data() != file.data() + tensor.offset) std::abort();
            if (byte_count(tensor.shape, tensor.type) != tensor.bytes.size()) std::abort();
            if (view.find(tensor.name) != &tensor) std::abort();
            end += tensor.bytes.size();
        }
        if (end != nullptr && end != file.data() + file.size()) std::abort();

        const mlp_model model = load_mlp(view);
        for (const dense_layer& layer : model.layers) {
            if (layer.weight.size() != layer.in_features * layer.out_features) std::abort();
            if (!layer.bias.empty() && layer.bias.size() != layer.out_features) std::abort();
        }
    } catch (const file_error&) {
    }
}

}  // namespace sluice::nn::fuzz
