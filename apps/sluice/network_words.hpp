// SPDX-License-Identifier: Apache-2.0
// How the tool calls the parts of a network. Plain text that may hold any name of the file.
#pragma once

#include <string>
#include <vector>

#include "sluice/nn/model.hpp"

namespace sluice::app {

// "f32 [batch, 64]"; a length without a name is "?", and so is a shape that the file does not say.
std::string text_of(const nn::value_info& value);
// "f32 [128, 64]"
std::string text_of(const nn::constant& value);
// "Gemm"; "ai.onnx.ml.Scaler" for one of another domain than ONNX's own.
std::string operator_of(const nn::node& each);
// "strides 2, 2", one attribute an element; graphs are left out, long lists and texts are cut.
std::vector<std::string> attributes_of(const nn::node& each);
// "a, -, b": a name that is empty is "-".
std::string joined(const std::vector<std::string>& names, const char* between = ", ");

}  // namespace sluice::app
