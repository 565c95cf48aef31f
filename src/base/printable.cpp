// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/printable.hpp"

#include <array>
#include <cstdint>

namespace sluice {
namespace {

struct character {
    std::size_t bytes = 1;
    char32_t code = 0;
    bool is_valid = false;  // UTF-8; else it is one byte
};

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

// The character at the start of a text that is not empty. Overlong forms, surrogates and codes beyond Unicode are not
// valid: a terminal may decode them as something else.
character first_of(std::string_view text) {
    const unsigned lead = byte_at(text, 0);
    if (lead < 0x80) return {1, lead, true};
    const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
    char32_t code = lead & (0xffu >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
        const unsigned next = byte_at(text, i);
        if ((next & 0xc0u) != 0x80u) return {};
        code = code << 6 | (next & 0x3fu);
    }
    constexpr std::array<char32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
    if (code < smallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
    return {bytes, code, true};
}

bool acts_on_a_terminal(char32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0x061c ||
           (code >= 0x200e && code <= 0x200f) || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

void append_hexadecimal(std::string& to, std::uint32_t value, int digits) {
    for (int digit = digits - 1; digit >= 0; --digit) to += "0123456789abcdef"[value >> (4 * digit) & 0xf];
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
    std::string result;
    std::size_t at = 0;
    while (at < text.size()) {
        const character next = first_of(text.substr(at));
        if (longest != no_limit && at + next.bytes > longest) return result + "...";
        if (!next.is_valid || next.code < 0x80) {
            const bool stays = next.is_valid && !acts_on_a_terminal(next.code);
            if (stays) result += text[at];
            if (!stays) append_hexadecimal(result += "\\x", byte_at(text, at), 2);
        } else if (acts_on_a_terminal(next.code)) {
            append_hexadecimal(result += "\\u", next.code, 4);
        } else {
            result += text.substr(at, next.bytes);
        }
        at += next.bytes;
    }
    return result;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text, 80) + "'"; }

}  // namespace sluice
