// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/read_files.hpp"

#include <algorithm>
#include <string_view>

#include "sluice/base/file_error.hpp"
#include "sluice/io/regular_file.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::serve {
namespace {

// The key of a tensor's external data, which such a file has as it is.
bool may_have_data_files(const std::filesystem::path& file) {
    constexpr std::string_view key = "location";
    if (file.extension() != ".onnx") return false;
    const std::vector<std::byte> bytes = io::regular_file(file).read_all();
    const auto as_byte = [](char each) { return static_cast<std::byte>(each); };
    return !std::ranges::search(bytes, key, {}, {}, as_byte).empty();
}

std::vector<std::filesystem::path> data_files_of(const std::filesystem::path& file) {
    try {
        return nn::load_onnx_data_files(file);
    } catch (const file_error&) {
        return {};  // the load says what is wrong
    }
}

}  // namespace

files_as_read files_of(const model_version& which) {
    files_as_read files;
    files.emplace_back(which.file, io::regular_file(which.file).state());
    if (!may_have_data_files(which.file)) return files;
    for (const std::filesystem::path& each : data_files_of(which.file))
        files.emplace_back(each, io::regular_file(each).state());
    return files;
}

void require_as_read(const files_as_read& files) {
    for (const auto& [path, state] : files) {
        if (io::regular_file(path).state() == state) continue;
        throw file_error(path, file_error::no_offset, "",
                         "the file is not the one that was loaded: load the model again");
    }
}

}  // namespace sluice::serve
