// SPDX-License-Identifier: Apache-2.0
// In place of onnx_reader.cpp where protobuf is not found.
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::nn {

bool onnx_supported() noexcept { return false; }

model read_onnx(std::span<const std::byte>, const std::filesystem::path& path, const own_operators&, data_links) {
    throw error(errc::unsupported, printable(path.native()) +
                                       ": this Sluice was built without protobuf, which ONNX files need; install "
                                       "libprotobuf-dev and protobuf-compiler, and build again");
}

model load_onnx(const std::filesystem::path& path, const own_operators& own, data_links links) {
    return read_onnx({}, path, own, links);
}

std::vector<std::filesystem::path> load_onnx_data_files(const std::filesystem::path& path) {
    static_cast<void>(read_onnx({}, path));
    return {};
}

std::vector<std::pair<std::string, std::string>> load_onnx_metadata(const std::filesystem::path& path) {
    static_cast<void>(read_onnx({}, path));
    return {};
}

}  // namespace sluice::nn
