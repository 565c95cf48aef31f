// SPDX-License-Identifier: Apache-2.0
#include "check/overlap.hpp"

#include <cstdint>

namespace sluice::check {
namespace {

constexpr std::uint64_t most_rows = 65'536;

bool is_whole(const byte_span& span) noexcept { return span.rows <= 1 || span.pitch == span.bytes; }

// Whether a row of the span has a byte in [begin, end), which is not empty.
bool has_row_in(const byte_span& span, std::uint64_t begin, std::uint64_t end) noexcept {
    const std::uint64_t first_end = span.at + span.bytes;
    const std::uint64_t row = begin < first_end ? 0 : (begin - first_end) / span.pitch + 1;
    return row < span.rows && span.at + row * span.pitch < end;
}

// Rows of one pitch: only the two rows of `a` next to the first one of `b` can meet its rows.
bool rows_meet(const byte_span& a, const byte_span& b) noexcept {
    if (b.at < a.at) return rows_meet(b, a);
    const std::uint64_t rows = (b.at - a.at) / a.pitch, rest = (b.at - a.at) % a.pitch;
    if (rows < a.rows && rest < a.bytes) return true;
    return rows + 1 < a.rows && a.pitch - rest < b.bytes;
}

}  // namespace

bool overlap(const byte_span& a, const byte_span& b) noexcept {
    if (a.at == a.end() || b.at == b.end()) return false;
    if (a.at >= b.end() || b.at >= a.end()) return false;
    if (is_whole(a) && is_whole(b)) return true;
    if (is_whole(a)) return has_row_in(b, a.at, a.end());
    if (is_whole(b)) return has_row_in(a, b.at, b.end());
    if (a.pitch == b.pitch) return rows_meet(a, b);
    const byte_span& few = a.rows <= b.rows ? a : b;
    const byte_span& many = a.rows <= b.rows ? b : a;
    if (few.rows > most_rows) return true;
    for (std::uint64_t i = 0; i < few.rows; ++i) {
        const std::uint64_t begin = few.at + i * few.pitch;
        if (has_row_in(many, begin, begin + few.bytes)) return true;
    }
    return false;
}

bool contains(const byte_span& outer, const byte_span& inner) noexcept {
    if (outer == inner) return true;
    return is_whole(outer) && outer.at <= inner.at && inner.end() <= outer.end();
}

}  // namespace sluice::check
