#include "sluice/nn/mlp_model.hpp"

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "printable.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::nn {
namespace {

[[noreturn]] void refuse(const safetensors_view& file, const tensor_entry& tensor, std::string_view why) {
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

struct layer_tensors {
    const tensor_entry* weight = nullptr;
    const tensor_entry* bias = nullptr;
};

// The tensors of each layer, by the layer's number.
std::map<std::uint64_t, layer_tensors> group_layers(const safetensors_view& file) {
    std::map<std::uint64_t, layer_tensors> layers;
    std::optional<std::string_view> prefix;
    for (const tensor_entry& tensor : file.tensors()) {
        const auto name = split_name(tensor.name);
        if (!name) refuse(file, tensor, "is not \"NUMBER.weight\" or \"NUMBER.bias\" of an nn.Sequential");
        if (!prefix) prefix = name->prefix;
        if (*prefix != name->prefix) {
            refuse(file, tensor, "does not share the prefix " + in_quotes(*prefix) + " of the tensors before it");
        }
        layer_tensors& layer = layers[name->number];
        (name->is_weight ? layer.weight : layer.bias) = &tensor;
    }
    return layers;
}

std::vector<float> read_floats(const safetensors_view& file, const tensor_entry& tensor) {
    if (tensor.type != dtype::f32 && tensor.type != dtype::f16 && tensor.type != dtype::bf16) {
        refuse(
            file, tensor,
            std::string("has elements of type ").append(to_string(tensor.type)) + "; f32, f16 and bf16 are supported");
    }
    std::vector<float> values(tensor.bytes.size() / size_of(tensor.type));
    convert_to_float(tensor.type, tensor.bytes, values);
    return values;
}

dense_layer read_layer(const safetensors_view& file, const layer_tensors& tensors) {
    if (tensors.weight == nullptr) refuse(file, *tensors.bias, "is a bias without its weight");
    const tensor_entry& weight = *tensors.weight;
    if (weight.shape.size() != 2) {
        refuse(file, weight,
               "has " + std::to_string(weight.shape.size()) + " dimensions; a linear layer's weight has 2");
    }
    dense_layer layer;
    layer.name = weight.name.substr(0, weight.name.rfind('.'));
    layer.out_features = weight.shape[0];
    layer.in_features = weight.shape[1];
    if (layer.out_features == 0 || layer.in_features == 0) refuse(file, weight, "has a dimension of size zero");
    if (tensors.bias != nullptr) {
        const auto& shape = tensors.bias->shape;
        if (shape.size() != 1 || shape[0] != layer.out_features) {
            refuse(file, *tensors.bias,
                   "is not a vector of " + std::to_string(layer.out_features) + " elements, one for each output of " +
                       in_quotes(weight.name));
        }
        layer.bias = read_floats(file, *tensors.bias);
    }
    layer.weight = read_floats(file, weight);
    return layer;
}

activation activation_from_metadata(const safetensors_view& file, std::string_view key, activation otherwise) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end()) return otherwise;
    const auto value = activation_from_string(found->second);
    if (!value) {
        throw file_error(file.path(), file.metadata_offset(), "__metadata__." + std::string(key),
                         "unknown activation " + in_quotes(found->second));
    }
    return *value;
}

}  // namespace

std::size_t mlp_model::parameters() const noexcept {
    std::size_t count = 0;
    for (const dense_layer& layer : layers) count += layer.weight.size() + layer.bias.size();
    return count;
}

mlp_model load_mlp(const std::filesystem::path& path) { return load_mlp(safetensors_file(path).view()); }

mlp_model load_mlp(const safetensors_view& file) {
    const activation hidden = activation_from_metadata(file, "activation", activation::relu);
    const activation output = activation_from_metadata(file, "output_activation", activation::none);

    mlp_model model;
    for (const auto& [number, tensors] : group_layers(file)) {
        dense_layer layer = read_layer(file, tensors);
        if (!model.layers.empty() && layer.in_features != model.out_features()) {
            refuse(file, *tensors.weight,
                   "takes " + std::to_string(layer.in_features) + " inputs, but the layer before, " +
                       in_quotes(model.layers.back().name) + ", has " + std::to_string(model.out_features()) +
                       " outputs");
        }
        layer.after = hidden;
        model.layers.push_back(std::move(layer));
    }
    if (model.layers.empty()) {
        throw file_error(file.path(), sizeof(std::uint64_t), "header", "the file has no layers");
    }
    model.layers.back().after = output;
    return model;
}

}  // namespace sluice::nn
