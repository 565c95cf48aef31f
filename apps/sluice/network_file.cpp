// SPDX-License-Identifier: Apache-2.0
#include "network_file.hpp"

#include <algorithm>
#include <cctype>

#include "sluice/base/error.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/to_mlp.hpp"

namespace sluice::app {

bool is_onnx(const std::filesystem::path& model) {
    std::string ending = model.extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char each) { return char(std::tolower(each)); });
    return ending == ".onnx";
}

nn::mlp_model load_network(const std::filesystem::path& model, const nn::mlp_load_options& options) {
    if (!is_onnx(model)) return nn::load_mlp(model, options);
    if (options.hidden || options.output) {
        throw error(errc::invalid_argument,
                    "an ONNX file has its activations as nodes: leave out --activation and --output-activation");
    }
    return nn::to_mlp(nn::load_onnx(model));
}

}  // namespace sluice::app
