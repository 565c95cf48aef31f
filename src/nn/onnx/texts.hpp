// SPDX-License-Identifier: Apache-2.0
// Texts of a network become numbers: each text that the file has gets one, and nodes that look texts up (LabelEncoder,
// OneHotEncoder, classifiers with labels that are texts) look numbers up. So no text reaches a device, and operators
// know numbers only.
#pragma once

#include <filesystem>

#include "sluice/nn/model.hpp"
#include "tensor_reader.hpp"

namespace sluice::nn::detail {

// Changes the nodes, and notes which inputs and outputs are texts. A text that the file does not have is -1, which is
// equal to no number of a text. So what could show a difference between two such texts is refused: throws file_error
// for a node that does more with texts than to move them, to compare them with known ones, and to look them up; and
// for an output of the network that may be a text of an input.
void number_texts(const std::filesystem::path& path, graph& body, tensor_reader& tensors);

}  // namespace sluice::nn::detail
