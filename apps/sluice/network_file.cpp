// SPDX-License-Identifier: Apache-2.0
#include "network_file.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/nn/trees.hpp"

namespace sluice::app {
namespace {

void refuse_activations(const nn::safetensors_options& options, const std::string& why) {
    if (!options.hidden && !options.output) return;
    throw error(errc::invalid_argument, why + ": leave out --activation and --output-activation");
}
constexpr const char* nodes_say_them = "an ONNX file has its activations as nodes";
constexpr const char* trees_have_none = "trees have no activations";

}  // namespace

bool is_onnx(const std::filesystem::path& model) {
    std::string ending = model.extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char each) { return char(std::tolower(each)); });
    return ending == ".onnx";
}

nn::data_links links_of(bool follows_links) {
    return follows_links ? nn::data_links::lead_anywhere : nn::data_links::stay_in_folder;
}

nn::model load_model(const std::filesystem::path& model, const nn::safetensors_options& options, nn::data_links links) {
    if (is_onnx(model)) {
        refuse_activations(options, nodes_say_them);
        return nn::load_onnx(model, {}, links);
    }
    if (!nn::is_tree_file(model)) return nn::load_safetensors(model, options);
    refuse_activations(options, trees_have_none);
    return nn::load_trees(model);
}

nn::model read_model(std::span<const std::byte> file, const std::filesystem::path& model,
                     const nn::safetensors_options& options, nn::data_links links) {
    if (is_onnx(model)) {
        refuse_activations(options, nodes_say_them);
        return nn::read_onnx(file, model, {}, links);
    }
    if (!nn::is_tree_file(file)) return nn::load_safetensors(io::safetensors_view(file, model), options);
    refuse_activations(options, trees_have_none);
    return nn::read_trees(file, model);
}

}  // namespace sluice::app
