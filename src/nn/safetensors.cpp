// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/safetensors.hpp"

#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "safetensors_metadata.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/file_memory.hpp"
#include "sluice/nn/to_model.hpp"

namespace sluice::nn {
namespace {

[[noreturn]] void refuse(const io::safetensors_view& file, const io::tensor_entry& tensor, std::string_view why) {
    throw file_error(file.path(), tensor.offset, in_quotes(tensor.name), why);
}

// "net.2.weight" is the weight of layer 2 under the prefix "net.".
struct parameter_name {
    std::string_view prefix;
    std::uint64_t number = 0;
    bool is_weight = false;
};

std::optional<parameter_name> split_name(std::string_view name) {
    parameter_name parts;
    if (name.ends_with(".weight")) {
        parts.is_weight = true;
    } else if (!name.ends_with(".bias")) {
        return std::nullopt;
    }
    const std::string_view module_name = name.substr(0, name.rfind('.'));
    const std::size_t digits = module_name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
    parts.prefix = module_name.substr(0, digits);
    if (!parts.prefix.empty() && !parts.prefix.ends_with('.')) return std::nullopt;

    const std::string_view number = module_name.substr(digits);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), parts.number);
    if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
    if (number.size() > 1 && number.front() == '0') return std::nullopt;  // "00" is not how PyTorch counts
    return parts;
}

std::string why_no_linear(std::string_view name) {
    for (const std::string_view statistic : {".running_mean", ".running_var", ".num_batches_tracked"}) {
        if (name.ends_with(statistic)) return "belongs to a BatchNorm; only Linear layers are supported";
    }
    return "is not \"NUMBER.weight\" or \"NUMBER.bias\" of an nn.Sequential";
}

struct layer_tensors {
    const io::tensor_entry* weight = nullptr;
    const io::tensor_entry* bias = nullptr;
};

// The tensors of each layer, by the layer's number.
std::map<std::uint64_t, layer_tensors> group_layers(const io::safetensors_view& file) {
    std::map<std::uint64_t, layer_tensors> layers;
    std::optional<std::string_view> prefix;
    for (const io::tensor_entry& tensor : file.tensors()) {
        const auto name = split_name(tensor.name);
        if (!name) refuse(file, tensor, why_no_linear(tensor.name));
        if (!prefix) prefix = name->prefix;
        if (*prefix != name->prefix) {
            refuse(file, tensor, "does not share the prefix " + in_quotes(*prefix) + " of the tensors before it");
        }
        layer_tensors& layer = layers[name->number];
        (name->is_weight ? layer.weight : layer.bias) = &tensor;
    }
    return layers;
}

void check_is_float(const io::safetensors_view& file, const io::tensor_entry& tensor) {
    if (tensor.type == io::dtype::f32 || tensor.type == io::dtype::f16 || tensor.type == io::dtype::bf16) return;
    refuse(file, tensor,
           std::string("has elements of type ").append(to_string(tensor.type)) + "; f32, f16 and bf16 are supported");
}

void check_layer(const io::safetensors_view& file, const layer_tensors& tensors) {
    if (tensors.weight == nullptr) refuse(file, *tensors.bias, "is a bias without its weight");
    const io::tensor_entry& weight = *tensors.weight;
    if (weight.shape.size() == 1) {
        refuse(file, weight,
               "has 1 dimension, as the weight of a LayerNorm, BatchNorm or PReLU; only Linear layers are supported, "
               "whose weight has 2");
    }
    if (weight.shape.size() != 2) {
        refuse(file, weight,
               "has " + std::to_string(weight.shape.size()) + " dimensions; a Linear layer's weight has 2");
    }
    check_is_float(file, weight);
    const std::size_t out_features = weight.shape[0];
    if (out_features == 0 || weight.shape[1] == 0) refuse(file, weight, "has a dimension of size zero");
    if (tensors.bias == nullptr) return;
    const auto& shape = tensors.bias->shape;
    if (shape.size() != 1 || shape[0] != out_features) {
        refuse(file, *tensors.bias,
               "is not a vector of " + std::to_string(out_features) + " elements, one for each output of " +
                   in_quotes(weight.name));
    }
    check_is_float(file, *tensors.bias);
}

std::string name_of(const layer_tensors& layer) { return layer.weight->name.substr(0, layer.weight->name.rfind('.')); }

void check_chain(const io::safetensors_view& file, const layer_tensors& before, const layer_tensors& layer) {
    const std::size_t inputs = layer.weight->shape[1];
    const std::size_t outputs = before.weight->shape[0];
    if (inputs == outputs) return;
    refuse(file, *layer.weight,
           "takes " + std::to_string(inputs) + " inputs, but the layer before, " + in_quotes(name_of(before)) +
               ", has " + std::to_string(outputs) + " outputs");
}

// Between two layers is the activation and nothing else: a module without parameters leaves only a gap in the
// numbers, and may be of any kind.
void check_places(const io::safetensors_view& file, const std::map<std::uint64_t, layer_tensors>& layers,
                  activation hidden) {
    const std::string after(to_string(hidden));
    const auto [first, first_layer] = *layers.begin();
    if (first != 0) {
        refuse(file, *first_layer.weight,
               "is the first layer, but not at place 0 of the nn.Sequential: the file does not show what is before "
               "it; save the network from its first Linear layer on");
    }
    for (auto before = layers.begin(), here = std::next(before); here != layers.end(); before = here++) {
        const std::uint64_t step = here->first - before->first;
        if (step == 2 || (step == 1 && hidden == activation::none)) continue;
        const std::string name = in_quotes(name_of(before->second));
        if (step == 1) {
            refuse(file, *here->second.weight,
                   "follows " + name + " at once, with no place for the activation " + after +
                       "; layers with an activation between them are at 0, 2, 4, ...");
        }
        refuse(file, *here->second.weight,
               "is " + std::to_string(step) + " places after " + name + ": the file does not show which modules " +
                   "are between them; only the activation (" + after + ") may be, so 2 places; a module that does " +
                   "nothing at inference, such as Dropout, must be left out when the network is saved");
    }
}

mlp_layer read_layer(const io::safetensors_view& file, const layer_tensors& tensors, activation after) {
    const auto floats = [&](const io::tensor_entry& tensor) {
        const std::size_t count = tensor.bytes.size() / io::size_of(tensor.type);
        auto values = io::vector_for<float>(file.path(), tensor.offset, in_quotes(tensor.name), count);
        io::convert_to_float(tensor.type, tensor.bytes, values);
        return values;
    };
    mlp_layer layer;
    layer.name = name_of(tensors);
    layer.out_features = tensors.weight->shape[0];
    layer.in_features = tensors.weight->shape[1];
    layer.weight = floats(*tensors.weight);
    if (tensors.bias != nullptr) layer.bias = floats(*tensors.bias);
    layer.after = after;
    return layer;
}

}  // namespace

model load_safetensors(const std::filesystem::path& path, const safetensors_options& options) {
    try {
        const io::safetensors_file file(path);
        model made = load_safetensors(file.view(), options);
        file.file().require_unchanged();
        return made;
    } catch (const std::bad_alloc&) {  // in the header: there may be a million names
        throw file_error(path, sizeof(std::uint64_t), "header", "needs more memory than there is", errc::out_of_memory);
    }
}

model load_safetensors(const io::safetensors_view& file, const safetensors_options& options) {
    check_metadata(file);
    const auto layers = group_layers(file);
    if (layers.empty()) throw file_error(file.path(), sizeof(std::uint64_t), "header", "the file has no layers");
    const layer_tensors* before = nullptr;
    for (const auto& [number, tensors] : layers) {
        check_layer(file, tensors);
        if (before != nullptr) check_chain(file, *before, tensors);
        before = &tensors;
    }
    const named_activations said = activations_of(file, options, layers.size());
    check_places(file, layers, said.hidden);

    std::vector<mlp_layer> made;
    made.reserve(layers.size());
    for (const auto& [number, tensors] : layers) made.push_back(read_layer(file, tensors, said.hidden));
    made.back().after = said.output;
    return to_model(made, file.path());
}

}  // namespace sluice::nn
