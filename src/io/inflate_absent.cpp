// SPDX-License-Identifier: Apache-2.0
// In place of inflate_zlib.cpp where zlib is not found: members of archives that are only stored are still read.
#include <array>

#include "inflate.hpp"
#include "sluice/base/error.hpp"
#include "sluice/io/npz.hpp"

namespace sluice::io {
namespace {

constexpr std::array<std::uint32_t, 256> crc_of_byte = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t rest = byte;
        for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xedb8'8320u : 0u);
        table[byte] = rest;
    }
    return table;
}();

}  // namespace

bool zlib_supported() noexcept { return false; }

bool inflate_all(std::span<const std::byte>, std::span<std::byte>) {
    throw error(errc::unsupported,
                "this Sluice was built without zlib, which compressed archives need; install zlib1g-dev and build "
                "again, or save without compression (numpy.savez)");
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
    std::uint32_t crc = ~0u;
    for (const std::byte each : bytes)
        crc = crc >> 8 ^ crc_of_byte[(crc ^ std::to_integer<std::uint32_t>(each)) & 0xff];
    return ~crc;
}

}  // namespace sluice::io
