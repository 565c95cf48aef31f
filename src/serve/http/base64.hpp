// SPDX-License-Identifier: Apache-2.0
// Bytes as text of base64 (RFC 4648, section 4).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice::serve {

// Whether `text` is the base64 of exactly as many bytes as `to` has, with its '=' at the end; then they are in `to`. Of
// the texts that decoders may accept for these bytes, only the canonical one is.
bool decode_base64(std::string_view text, std::span<std::byte> to) noexcept;

}  // namespace sluice::serve
