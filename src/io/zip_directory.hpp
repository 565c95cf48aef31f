// SPDX-License-Identifier: Apache-2.0
// The directory of a zip archive: where its members are, and how they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

struct zip_member {
    std::string name;
    std::uint64_t header_offset = 0;
    std::uint64_t data_offset = 0;
    std::uint64_t stored_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint32_t crc = 0;
    bool is_deflated = false;
};

// The members in the order of the directory. Their data is inside the file, and no two overlap; their names differ, and
// are neither empty nor have zero bytes in them. Throws file_error for everything else, and for what is not supported.
std::vector<zip_member> parse_zip_directory(std::span<const std::byte> file, const std::filesystem::path& path);

}  // namespace sluice::io
