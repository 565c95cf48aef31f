// SPDX-License-Identifier: Apache-2.0
#include "network_file.hpp"

#include <algorithm>
#include <cctype>

#include "sluice/base/error.hpp"
#include "sluice/nn/to_mlp.hpp"

namespace sluice::app {

bool is_onnx(const std::filesystem::path& model) {
    std::string ending = model.extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char each) { return char(std::tolower(each)); });
    return ending == ".onnx";
}

nn::data_links links_of(bool follows_links) {
    return follows_links ? nn::data_links::lead_anywhere : nn::data_links::stay_in_folder;
}

nn::mlp_model load_network(const std::filesystem::path& model, const nn::mlp_load_options& options,
                           nn::data_links links) {
    if (!is_onnx(model)) return nn::load_mlp(model, options);
    if (options.hidden || options.output) {
        throw error(errc::invalid_argument,
                    "an ONNX file has its activations as nodes: leave out --activation and --output-activation");
    }
    return nn::to_mlp(nn::load_onnx(model, {}, links));
}

}  // namespace sluice::app
