// SPDX-License-Identifier: Apache-2.0
// Makes zip archives byte by byte, right or wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/support/hostile_files.hpp"

namespace sluice::io::testing {

inline std::uint32_t crc_of(std::string_view bytes) {
    std::uint32_t crc = ~0u;
    for (const char each : bytes) {
        crc ^= static_cast<unsigned char>(each);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb8'8320u : 0u);
    }
    return ~crc;
}

// What is not set is right.
struct zip_part {
    std::string name;
    std::string data;  // as it is in the archive
    std::uint64_t bytes = data.size();
    std::uint16_t method = 0;
    std::uint16_t flags = 0;
    std::uint32_t crc = crc_of(data);
    std::string extra = {};         // in the directory
    std::string name_here = name;   // in the member's own header
    std::uint64_t offset_less = 0;  // how much earlier the directory says that it is
};

// The number that is in the field of zip64 instead.
inline constexpr std::uint64_t in_zip64 = 0xffff'ffff;

inline std::string local_header(const zip_part& part) {
    return std::string("PK\3\4") + little_endian(20, 2) + little_endian(part.flags, 2) + little_endian(part.method, 2) +
           little_endian(0, 4) + little_endian(part.crc, 4) + little_endian(part.data.size(), 4) +
           little_endian(part.bytes, 4) + little_endian(part.name_here.size(), 2) + little_endian(0, 2) +
           part.name_here;
}

inline std::string directory_entry(const zip_part& part, std::uint64_t offset) {
    return std::string("PK\1\2") + little_endian(20, 2) + little_endian(20, 2) + little_endian(part.flags, 2) +
           little_endian(part.method, 2) + little_endian(0, 4) + little_endian(part.crc, 4) +
           little_endian(part.data.size(), 4) + little_endian(part.extra.empty() ? part.bytes : in_zip64, 4) +
           little_endian(part.name.size(), 2) + little_endian(part.extra.size(), 2) + little_endian(0, 2) +
           little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 4) +
           little_endian(offset - part.offset_less, 4) + part.name + part.extra;
}

inline std::string end_record(std::size_t members, std::size_t bytes, std::size_t offset,
                              std::string_view comment = {}) {
    return std::string("PK\5\6") + little_endian(0, 4) + little_endian(members, 2) + little_endian(members, 2) +
           little_endian(bytes, 4) + little_endian(offset, 4) + little_endian(comment.size(), 2) + std::string(comment);
}

inline std::string zip_bytes(const std::vector<zip_part>& parts, std::string_view comment = {}) {
    std::string file, directory;
    for (const zip_part& each : parts) {
        directory += directory_entry(each, file.size());
        file += local_header(each) + each.data;
    }
    const std::size_t offset = file.size();
    return file + directory + end_record(parts.size(), directory.size(), offset, comment);
}

// An f32 array of these numbers.
inline std::string array_bytes(std::initializer_list<float> values) {
    return npy_bytes(npy_dict("'<f4'", "False", "(" + std::to_string(values.size()) + ",)"), float_bytes(values));
}

}  // namespace sluice::io::testing
