// SPDX-License-Identifier: Apache-2.0
#include "csv_number.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "sluice/base/half.hpp"

namespace sluice::io {
namespace {

template <typename T>
number_text put(T value, std::byte* to) {
    std::memcpy(to, &value, sizeof value);
    return number_text::read;
}

// from_chars takes no plus sign.
std::string_view without_plus(std::string_view text) {
    const bool has_one = text.size() > 1 && text[0] == '+' && text[1] != '-';
    return has_one ? text.substr(1) : text;
}

bool is_word(std::string_view text, std::string_view word) {
    return std::ranges::equal(text, word, [](char left, char right) {
        return (left >= 'A' && left <= 'Z' ? static_cast<char>(left - 'A' + 'a') : left) == right;
    });
}

// Whether a decimal number is less than 1, apart from its sign. libstdc++'s from_chars reports numbers that are too
// small and such that are too large in the same way.
bool is_small(std::string_view text) {
    const std::size_t mark = std::min(text.find_first_of("eE"), text.size());
    long exponent = 0;
    std::string_view power = without_plus(text.substr(std::min(mark + 1, text.size())));
    if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec == std::errc::result_out_of_range)
        return power.front() == '-';
    const std::string_view digits = text.substr(0, mark);
    const auto point = static_cast<long>(std::min(digits.find('.'), digits.size()));
    const std::size_t first = digits.find_first_of("123456789");
    if (first == std::string_view::npos) return true;
    const long ahead = point - static_cast<long>(first);  // digits before the point, from the first that counts
    return (ahead < 0 ? ahead + 1 : ahead) + exponent <= 0;
}

template <typename T>
number_text parse_float(std::string_view text, T& value) {
    const char* const end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, value);
    if (stop != end || failure == std::errc::invalid_argument) return number_text::no_number;
    if (failure == std::errc()) return number_text::read;
    if (!is_small(text)) return number_text::out_of_range;
    value = text.front() == '-' ? -T(0) : T(0);
    return number_text::read;
}

template <typename T>
number_text put_float(std::string_view text, std::byte* to) {
    T value = 0;
    const number_text came = parse_float(text, value);
    return came == number_text::read ? put(value, to) : came;
}

// f16 or bf16. A finite number must not become infinity.
template <typename T>
number_text put_narrow(std::string_view text, std::byte* to) {
    float value = 0;
    if (const number_text came = parse_float(text, value); came != number_text::read) return came;
    const T narrow(value);
    if (std::isinf(static_cast<float>(narrow)) && !std::isinf(value)) return number_text::out_of_range;
    return put(narrow, to);
}

// Zeros may follow the point: pandas writes "3.0" where a column had missing numbers.
template <typename T>
number_text put_integer(std::string_view text, std::byte* to) {
    const std::size_t point = text.find('.');
    const bool has_zeros =
        point != std::string_view::npos && text.find_first_not_of('0', point + 1) == std::string_view::npos;
    const std::string_view digits = has_zeros ? text.substr(0, point) : text;
    const char* const end = digits.data() + digits.size();
    T value = 0;
    const auto [stop, failure] = std::from_chars(digits.data(), end, value);
    if (stop == end && failure == std::errc()) return put(value, to);
    double wide = 0;
    if (parse_float(text, wide) == number_text::no_number) return number_text::no_number;
    // Left are -1 for a type without negative numbers, 1e3, 1.5, nan and such that are too large.
    return digits.find_first_of(".eE") == std::string_view::npos ? number_text::out_of_range : number_text::not_whole;
}

number_text put_boolean(std::string_view text, std::byte* to) {
    if (text == "0" || is_word(text, "false")) return put(std::uint8_t{0}, to);
    if (text == "1" || is_word(text, "true")) return put(std::uint8_t{1}, to);
    double value = 0;
    return parse_float(text, value) == number_text::no_number ? number_text::no_number : number_text::out_of_range;
}

}  // namespace

number_text parse_number(std::string_view text, dtype type, std::byte* to) {
    text = without_plus(text);
    switch (type) {
        case dtype::f16: return put_narrow<half>(text, to);
        case dtype::bf16: return put_narrow<bfloat16>(text, to);
        case dtype::f32: return put_float<float>(text, to);
        case dtype::f64: return put_float<double>(text, to);
        case dtype::i8: return put_integer<std::int8_t>(text, to);
        case dtype::u8: return put_integer<std::uint8_t>(text, to);
        case dtype::i16: return put_integer<std::int16_t>(text, to);
        case dtype::u16: return put_integer<std::uint16_t>(text, to);
        case dtype::i32: return put_integer<std::int32_t>(text, to);
        case dtype::u32: return put_integer<std::uint32_t>(text, to);
        case dtype::i64: return put_integer<std::int64_t>(text, to);
        case dtype::u64: return put_integer<std::uint64_t>(text, to);
        case dtype::boolean: return put_boolean(text, to);
    }
    return number_text::no_number;
}

}  // namespace sluice::io
