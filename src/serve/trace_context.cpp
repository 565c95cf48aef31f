// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/trace_context.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

namespace sluice::serve {
namespace {

// VERSION-TRACE-PARENT-FLAGS
constexpr std::size_t length_of_version_0 = 2 + 1 + 32 + 1 + 16 + 1 + 2;

std::optional<std::uint8_t> digit_of(char each) {
    if (each >= '0' && each <= '9') return static_cast<std::uint8_t>(each - '0');
    if (each >= 'a' && each <= 'f') return static_cast<std::uint8_t>(each - 'a' + 10);
    return std::nullopt;
}

bool read_bytes(std::string_view text, std::span<std::uint8_t> to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
        const auto high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (!high || !low) return false;
        to[i] = static_cast<std::uint8_t>(*high << 4 | *low);
    }
    return true;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
    return std::ranges::all_of(bytes, [](std::uint8_t each) { return each == 0; });
}

template <std::size_t Size>
std::array<std::uint8_t, Size> random_id() {
    thread_local std::mt19937_64 numbers = [] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
        return std::mt19937_64(seed);
    }();
    std::array<std::uint8_t, Size> made{};
    while (is_zero(made)) {
        for (std::size_t at = 0; at < Size; at += 8) {
            const std::uint64_t number = numbers();
            for (std::size_t i = 0; i < 8; ++i) made[at + i] = static_cast<std::uint8_t>(number >> (8 * i));
        }
    }
    return made;
}

}  // namespace

std::optional<trace_context> parse_traceparent(std::string_view value) noexcept {
    if (value.size() < length_of_version_0) return std::nullopt;
    std::array<std::uint8_t, 1> version{}, flags{};
    trace_context found;
    const bool has_form = value[2] == '-' && value[35] == '-' && value[52] == '-' && read_bytes(value, version) &&
                          read_bytes(value.substr(3), found.trace) && read_bytes(value.substr(36), found.parent) &&
                          read_bytes(value.substr(53), flags);
    if (!has_form || version[0] == 0xff || is_zero(found.trace) || is_zero(found.parent)) return std::nullopt;
    if (value.size() > length_of_version_0 && (version[0] == 0 || value[length_of_version_0] != '-'))
        return std::nullopt;
    found.is_sampled = (flags[0] & 1) != 0;
    return found;
}

std::string hex_text(std::span<const std::uint8_t> bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t each : bytes) {
        text += digits[each >> 4];
        text += digits[each & 15];
    }
    return text;
}

trace_id new_trace_id() { return random_id<16>(); }
span_id new_span_id() { return random_id<8>(); }

}  // namespace sluice::serve
