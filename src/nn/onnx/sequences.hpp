// SPDX-License-Identifier: Apache-2.0
// Sequences of an ONNX model whose lengths the file says become values: each element is one. So networks have tensors
// only.
#pragma once

#include <cstdint>
#include <filesystem>

#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// `opset`: the version of ONNX's own operators. Replaces the nodes that make, change and take sequences, in inner
// graphs too. An output of the network that is a sequence becomes one output for each element, NAME_0, NAME_1, ...
// Throws file_error: for a sequence whose length depends on shapes in another way than to have one element for each
// place of an axis; for a place that is not a constant; for one that an inner graph gives or hands on.
void unfold_sequences(const std::filesystem::path& path, std::int64_t opset, graph& body);

}  // namespace sluice::nn::detail
