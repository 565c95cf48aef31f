// SPDX-License-Identifier: Apache-2.0
#include "serve/http/base64.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::serve {
namespace {

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

bool decode_base64(std::string_view text, std::span<std::byte> to) noexcept {
    const std::size_t used = (to.size() * 8 + 5) / 6;  // letters that say something
    if (text.size() != (to.size() + 2) / 3 * 4) return false;
    if (!std::ranges::all_of(text.substr(used), [](char each) { return each == '='; })) return false;
    std::uint32_t bits = 0;
    unsigned count = 0;
    std::size_t next = 0;
    for (const char each : text.substr(0, used)) {
        const std::size_t value = letters.find(each);
        if (value == std::string_view::npos) return false;
        bits = bits << 6U | static_cast<std::uint32_t>(value);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        to[next++] = static_cast<std::byte>(bits >> count & 0xFFU);
    }
    return (bits & ((1U << count) - 1)) == 0;
}

}  // namespace sluice::serve
