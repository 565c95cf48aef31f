// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file. Of the data after it, it knows only the length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/io/dtype.hpp"

namespace sluice::io {

struct safetensors_header {
    struct tensor {
        std::string name;
        dtype type{};
        std::vector<std::size_t> shape;
        std::uint64_t begin = 0;       // of its bytes, from the start of the data
        std::uint64_t end = 0;         // one after them
        std::uint64_t offsets_at = 0;  // of this statement in the header, for errors
    };

    std::vector<tensor> tensors;  // as the header lists them
    std::map<std::string, std::string, std::less<>> metadata;
    std::uint64_t metadata_at = 0;  // the offset of the metadata in the file; 0 when there are none
};

// Where the header's JSON starts in every file, after its eight-byte length.
inline constexpr std::uint64_t safetensors_json_offset = 8;

// Parses the JSON. Each tensor alone is checked: its bytes lie inside `data_bytes` and are as many as its shape
// needs; names are unique. The caller checks how tensors lie to each other. Throws file_error about `path`.
safetensors_header parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                            const std::filesystem::path& path);

}  // namespace sluice::io
