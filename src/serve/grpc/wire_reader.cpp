// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/wire_reader.hpp"

#include <bit>
#include <string>

#include "serve/utf8.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

static_assert(std::endian::native == std::endian::little);  // numbers are copied as they lie

constexpr unsigned is_more = 0x80;
constexpr std::uint64_t longest_length = 0x7fffffff - 16;  // of a field, as protobuf has it

}  // namespace

void refuse_message(const char* what) {
    throw refusal(refusal_kind::bad_request, std::string("the message is no ModelInferRequest: ") + what);
}

std::string_view wire_reader::read_text() {
    const std::span<const std::byte> its = read_bytes();
    const std::string_view text{reinterpret_cast<const char*>(its.data()), its.size()};
    if (!is_utf8(text)) refuse_message("a text is not UTF-8");
    return text;
}

std::uint64_t wire_reader::read_long_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (at_ == end_) refuse_message("it ends in a number");
        const auto byte = std::to_integer<std::uint64_t>(*at_++);
        value |= (byte & 0x7fU) << shift;  // of the tenth byte only one bit is left
        if ((byte & is_more) == 0) return value;
    }
    refuse_message("a number is too long");
}

std::uint32_t wire_reader::read_long_tag() {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (at_ == end_) refuse_message("it ends in the number of a field");
        const auto byte = std::to_integer<std::uint32_t>(*at_++);
        value |= (byte & 0x7fU) << shift;
        if ((byte & is_more) == 0) return value;
    }
    refuse_message("the number of a field is too long");
}

std::size_t wire_reader::read_long_length() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (at_ == end_) refuse_message("it ends in a length");
        const auto byte = std::to_integer<std::uint64_t>(*at_++);
        value |= (byte & 0x7fU) << shift;
        if ((byte & is_more) != 0) continue;
        if (value > longest_length) break;
        return static_cast<std::size_t>(value);
    }
    refuse_message("a length is beyond its end");
}

void wire_reader::skip(field its) {
    switch (its.type) {
        case wire_type::varint: read_varint(); return;
        case wire_type::fixed64: read_fixed<std::uint64_t>(); return;
        case wire_type::bytes: read_bytes(); return;
        case wire_type::fixed32: read_fixed<std::uint32_t>(); return;
        case wire_type::group: return skip_group(its.number);
        case wire_type::group_end: break;  // next() gives none
    }
    refuse_message("a field has no number");
}

// The groups that are open are remembered by their numbers, and not by calls: the message says how deep they are.
void wire_reader::skip_group(std::uint32_t number) {
    std::uint32_t open[most_depth];
    int depth = 0;
    const auto begin = [&](std::uint32_t its) {
        if (depth == depth_) refuse_message("it is too deep");
        open[depth++] = its;
    };
    begin(number);
    while (depth != 0) {
        if (at_ == end_) refuse_message("it ends in a group");
        const std::uint32_t tag = read_tag();
        const field its{tag >> 3U, static_cast<wire_type>(tag & 7U)};
        if (its.number == 0 || (tag & 7U) > 5) refuse_message("a field has no number");
        if (its.type == wire_type::group) {
            begin(its.number);
        } else if (its.type == wire_type::group_end) {
            if (open[--depth] != its.number) refuse_message("a group does not end as it began");
        } else {
            skip(its);
        }
    }
}

}  // namespace sluice::serve
