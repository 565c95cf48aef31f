// SPDX-License-Identifier: Apache-2.0
#include "safetensors_metadata.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn {
namespace {

constexpr std::string_view hidden_key = "activation";
constexpr std::string_view output_key = "output_activation";
constexpr std::string_view format_key = "format";  // the safetensors library writes it

[[noreturn]] void refuse(const io::safetensors_view& file, std::string_view key, const std::string& why) {
    const std::uint64_t header = sizeof(std::uint64_t);
    throw file_error(file.path(), file.metadata_offset() != 0 ? file.metadata_offset() : header,
                     "__metadata__." + printable(key, 80), why);
}

// The activation that the file names, or else the one that the caller names. Empty when neither does.
std::optional<activation> said(const io::safetensors_view& file, std::string_view key,
                               std::optional<activation> option) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end()) return option;
    const auto value = activation_from_string(found->second);
    if (!value) {
        refuse(file, key,
               "unknown activation " + in_quotes(found->second) + "; accepted are " + accepted_activations());
    }
    if (option && *option != *value) {
        refuse(file, key,
               "the file says " + in_quotes(found->second) + ", but the network is to be loaded with " +
                   in_quotes(to_string(*option)));
    }
    return value;
}

}  // namespace

std::string accepted_activations() { return "none, identity, linear, relu, gelu, sigmoid, tanh, softmax"; }

void check_metadata(const io::safetensors_view& file) {
    for (const auto& [key, value] : file.metadata()) {
        if (key == hidden_key || key == output_key) continue;
        if (key != format_key) refuse(file, key, "is not known; known are activation, output_activation and format");
        // Other frameworks store a layer's weight the other way round.
        if (value != "pt") refuse(file, key, "unknown format " + in_quotes(value) + "; accepted is pt (PyTorch)");
    }
}

named_activations activations_of(const io::safetensors_view& file, const safetensors_options& options,
                                 std::size_t layers) {
    const auto hidden = said(file, hidden_key, options.hidden);
    const auto output = said(file, output_key, options.output);
    if (!hidden && (layers > 1 || !output)) {
        refuse(file, layers > 1 ? hidden_key : output_key,
               std::string("nothing says which activation follows ") +
                   (layers > 1 ? "the hidden layers" : "the layer") +
                   ": say it in the file's metadata or when the network is loaded (sluice: " +
                   (layers > 1 ? "--activation" : "--output-activation") + "); accepted are " + accepted_activations());
    }
    return {hidden.value_or(activation::none), output.value_or(activation::none)};
}

}  // namespace sluice::nn
