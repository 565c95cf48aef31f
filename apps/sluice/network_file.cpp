// SPDX-License-Identifier: Apache-2.0
#include "network_file.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "sluice/base/error.hpp"

namespace sluice::app {
namespace {

void refuse_activations(const nn::safetensors_options& options) {
    if (!options.hidden && !options.output) return;
    throw error(errc::invalid_argument,
                "an ONNX file has its activations as nodes: leave out --activation and --output-activation");
}

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
    if (!is_onnx(model)) return nn::load_safetensors(model, options);
    refuse_activations(options);
    return nn::load_onnx(model, {}, links);
}

nn::model read_model(std::span<const std::byte> file, const std::filesystem::path& model,
                     const nn::safetensors_options& options, nn::data_links links) {
    if (!is_onnx(model)) return nn::load_safetensors(io::safetensors_view(file, model), options);
    refuse_activations(options);
    return nn::read_onnx(file, model, {}, links);
}

}  // namespace sluice::app
