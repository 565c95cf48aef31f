// Text for the writers of traces: escaping of names that may hold anything, and numbers that no locale changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::detail {

inline constexpr char32_t replacement_character = 0xFFFD;

// The code point that begins at `at`, which moves behind it. Bytes that are not UTF-8 (overlong forms and surrogates
// among them) are one U+FFFD each. `at` must be less than the size.
char32_t next_code_point(std::string_view text, std::size_t& at) noexcept;

// Appends the code point as UTF-8.
void append_utf8(std::string& to, char32_t code_point);

// Appends a JSON string, quotes included.
void append_json(std::string& to, std::string_view text);

// Appends text for XML, fit for content and for attributes in double quotes. Line breaks and tabs are kept in
// content; in attributes readers take them for spaces.
void append_xml(std::string& to, std::string_view text);

// "12.340" for (12.34, 3). The value must be finite and less than 10^18.
void append_fixed(std::string& to, double value, int decimals);
// The same without trailing zeros: "12.34".
void append_compact(std::string& to, double value, int decimals);

// "4.2 µs", "12 ms", "1.25 s": three digits or so.
std::string duration_text(double us);
// "512 bytes", "4 KiB", "1.5 GiB".
std::string bytes_text(double bytes);
// "1,234,567"
std::string count_text(std::uint64_t count);
// "1 command", "2 commands"
std::string count_text(std::uint64_t count, std::string_view thing);

}  // namespace sluice::detail
