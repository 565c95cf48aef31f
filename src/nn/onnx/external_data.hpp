// SPDX-License-Identifier: Apache-2.0
// Data of tensors that an ONNX file keeps in other files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace sluice::nn::onnx {
class TensorProto;
}

namespace sluice::nn::detail {

// The `size` bytes that `tensor` says are outside the model's file. Throws file_error: for a file that is not in the
// model's folder or a folder below it, by name or through a link; for one that is too short; for keys that are not
// known.
std::string read_external_data(const std::filesystem::path& model, const std::string& label,
                               const onnx::TensorProto& tensor, std::size_t size);

}  // namespace sluice::nn::detail
