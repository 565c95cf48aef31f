// SPDX-License-Identifier: Apache-2.0
// What archives need of zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::io {

// Inflates a raw deflate stream, all of `source`, to all of `target`. False when it is damaged, or ends elsewhere in
// one of them. Where Sluice was built without zlib, throws error (errc::unsupported).
bool inflate_all(std::span<const std::byte> source, std::span<std::byte> target);

// That of zip archives and PNG: the reflected polynomial 0xedb88320.
std::uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace sluice::io
