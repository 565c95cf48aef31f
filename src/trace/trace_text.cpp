// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace sluice::detail {
namespace {

// The number of bytes of a sequence that begins with this byte; 0 when no sequence does.
std::size_t sequence_length(unsigned char first) noexcept {
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return 2;
    if (first >= 0xE0 && first <= 0xEF) return 3;
    if (first >= 0xF0 && first <= 0xF4) return 4;
    return 0;
}

bool is_scalar_of_length(char32_t code_point, std::size_t length) noexcept {
    if (length == 3) return code_point >= 0x800 && (code_point < 0xD800 || code_point > 0xDFFF);
    if (length == 4) return code_point >= 0x10000 && code_point <= 0x10FFFF;
    return true;  // for shorter sequences the check of the first byte is enough
}

// XML 1.0 cannot represent other control characters, nor these two noncharacters.
bool is_xml_character(char32_t code_point) noexcept {
    if (code_point < 0x20) return code_point == '\t' || code_point == '\n' || code_point == '\r';
    return code_point != 0xFFFE && code_point != 0xFFFF;
}

void append_escaped_control(std::string& to, char32_t control) {
    constexpr std::string_view digits = "0123456789abcdef";
    to += "\\u00";
    to += digits[control >> 4];
    to += digits[control & 15];
}

std::string with_unit(double value, std::string_view unit) {
    std::string text;
    append_compact(text, value, value < 10 ? 2 : value < 100 ? 1 : 0);
    return text.append(unit);
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) noexcept {
    const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
    const std::size_t begin = at++;
    const std::size_t length = sequence_length(byte(begin));
    if (length == 1) return byte(begin);
    if (length == 0 || length > text.size() - begin) return replacement_character;
    char32_t code_point = byte(begin) & (0xFFu >> (length + 1));
    for (std::size_t i = begin + 1; i < begin + length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return replacement_character;
        code_point = code_point << 6 | (byte(i) & 0x3Fu);
    }
    if (!is_scalar_of_length(code_point, length)) return replacement_character;
    at = begin + length;
    return code_point;
}

void append_utf8(std::string& to, char32_t code_point) {
    const auto append = [&](char32_t byte) { to += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code_point < 0x80) return append(code_point);
    if (code_point < 0x800) {
        append(0xC0 | code_point >> 6);
    } else {
        if (code_point < 0x10000) {
            append(0xE0 | code_point >> 12);
        } else {
            append(0xF0 | code_point >> 18);
            append(0x80 | (code_point >> 12 & 0x3F));
        }
        append(0x80 | (code_point >> 6 & 0x3F));
    }
    append(0x80 | (code_point & 0x3F));
}

void append_json(std::string& to, std::string_view text) {
    to += '"';
    for (std::size_t at = 0; at < text.size();) {
        const char32_t code_point = next_code_point(text, at);
        switch (code_point) {
            case '"': to += "\\\""; break;
            case '\\': to += "\\\\"; break;
            case '\n': to += "\\n"; break;
            case '\t': to += "\\t"; break;
            default:
                if (code_point < 0x20 || code_point == 0x7F) {
                    append_escaped_control(to, code_point);
                } else {
                    append_utf8(to, code_point);
                }
        }
    }
    to += '"';
}

void append_xml(std::string& to, std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const char32_t code_point = next_code_point(text, at);
        switch (code_point) {
            case '&': to += "&amp;"; break;
            case '<': to += "&lt;"; break;
            case '>': to += "&gt;"; break;
            case '"': to += "&quot;"; break;
            case '\r': to += "&#13;"; break;  // a bare one would be read as a line feed
            default: append_utf8(to, is_xml_character(code_point) ? code_point : replacement_character);
        }
    }
}

void append_fixed(std::string& to, double value, int decimals) {
    std::array<char, 64> digits;
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, decimals);
    to.append(digits.data(), end.ptr);
}

void append_compact(std::string& to, double value, int decimals) {
    const std::size_t begin = to.size();
    append_fixed(to, value, decimals);
    if (to.find('.', begin) != std::string::npos) {
        to.erase(to.find_last_not_of('0') + 1);
        if (to.back() == '.') to.pop_back();
    }
    if (std::string_view(to).substr(begin) == "-0") to.erase(begin, 1);
}

std::string duration_text(double us) {
    if (us < 999.5) return with_unit(us, " µs");
    if (us < 999.5e3) return with_unit(us / 1e3, " ms");
    return with_unit(us / 1e6, " s");
}

std::string bytes_text(double bytes) {
    static constexpr std::array<std::string_view, 7> units = {" bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < units.size()) {
        bytes /= 1024;
        ++unit;
    }
    return with_unit(bytes, units[unit]);
}

std::string count_text(std::uint64_t count) {
    std::string text = std::to_string(count);
    for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
    return text;
}

std::string count_text(std::uint64_t count, std::string_view thing) {
    std::string text = count_text(count).append(" ").append(thing);
    if (count != 1) text += 's';
    return text;
}

}  // namespace sluice::detail
