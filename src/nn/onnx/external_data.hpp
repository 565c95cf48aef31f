// SPDX-License-Identifier: Apache-2.0
// Data of tensors that an ONNX file keeps in other files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sluice/io/regular_file.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::nn::onnx {
class TensorProto;
}

namespace sluice::nn::detail {

class external_data {
public:
    explicit external_data(const std::filesystem::path& model, data_links links = data_links::stay_in_folder)
        : model_(model), links_(links) {}

    // The `size` bytes that `tensor` says are outside the model's file. Throws file_error: for a file that is not in
    // the model's folder or a folder below it, by name or through a link that is not allowed; for one that is too
    // short; for one that has changed since an earlier tensor was read from it; for keys that are not known.
    std::string read(const std::string& label, const onnx::TensorProto& tensor, std::size_t size);

    std::vector<std::filesystem::path> files() const;  // that were read

private:
    const std::filesystem::path& model_;
    const data_links links_;
    std::map<std::filesystem::path, io::file_state> seen_;
};

}  // namespace sluice::nn::detail
