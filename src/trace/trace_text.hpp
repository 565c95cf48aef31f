// SPDX-License-Identifier: Apache-2.0
// trace_text: text for the writers of traces. It escapes names with any contents and formats numbers independently of
// the locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::detail {

inline constexpr char32_t replacement_character = 0xFFFD;

// Returns the code point that begins at `at`, and moves `at` after it. Each byte that is not valid UTF-8 (overlong
// forms and surrogates are not) gives one U+FFFD. `at` must be less than the size.
char32_t next_code_point(std::string_view text, std::size_t& at) noexcept;

// Appends the code point as UTF-8.
void append_utf8(std::string& to, char32_t code_point);

// Appends a JSON string, quotes included.
void append_json(std::string& to, std::string_view text);

// Appends text for XML, valid in content and in attributes in double quotes. Readers keep line breaks and tabs in
// content; in attributes they replace them with spaces.
void append_xml(std::string& to, std::string_view text);

// "12.340" for (12.34, 3). The value must be finite and less than 10^18.
void append_fixed(std::string& to, double value, int decimals);
// The same without trailing zeros: "12.34".
void append_compact(std::string& to, double value, int decimals);

// "4.2 µs", "12 ms", "1.25 s": about three digits.
std::string duration_text(double us);
// "512 bytes", "4 KiB", "1.5 GiB".
std::string bytes_text(double bytes);
// "1,234,567"
std::string count_text(std::uint64_t count);
// "1 command", "2 commands"
std::string count_text(std::uint64_t count, std::string_view thing);

}  // namespace sluice::detail
