// SPDX-License-Identifier: Apache-2.0
#include "serve/utf8.hpp"

#include <cstddef>

namespace sluice::serve {
namespace {

// How many bytes the character that begins here has; 0: it is no UTF-8. `left` is at least 1.
std::size_t length_of_character(const unsigned char* at, std::size_t left) noexcept {
    const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
        return i < left && at[i] >= low && at[i] <= high;
    };
    const unsigned first = at[0];
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {  // not longer than needed, and no half of a pair of UTF-16
        return follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) && follows(2) ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const bool is_right = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
        return is_right && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
    const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t length = length_of_character(begin + at, text.size() - at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

}  // namespace sluice::serve
