// SPDX-License-Identifier: Apache-2.0
// Reads one message in protobuf's wire format, where it lies, without memory of its own. Messages are hostile: each
// length is compared with what is there. What protobuf's own parser refuses is refused here too, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sluice::serve {

enum class wire_type : unsigned char { varint = 0, fixed64 = 1, bytes = 2, group = 3, group_end = 4, fixed32 = 5 };

// Throws refusal (bad_request) that says what is wrong in the message.
[[noreturn]] void refuse_message(const char* what);

class wire_reader {
public:
    static constexpr int most_depth = 100;  // of messages in messages, as protobuf has it

    // `depth`: how deep messages in this one may be.
    explicit wire_reader(std::span<const std::byte> message, int depth = most_depth) noexcept
        : at_(message.data()), end_(message.data() + message.size()), depth_(depth) {}

    struct field {
        std::uint32_t number = 0;
        wire_type type = wire_type::varint;

        bool is(std::uint32_t its, wire_type has) const noexcept { return number == its && type == has; }
    };

    // False: the message has no more. After it, the field's value is read or skipped.
    bool next(field& to) {
        if (at_ == end_) return false;
        const std::uint32_t tag = read_tag();
        to = {tag >> 3U, static_cast<wire_type>(tag & 7U)};
        if (to.number == 0 || (tag & 7U) > 5 || to.type == wire_type::group_end)
            refuse_message("a field has no number");
        return true;
    }

    // All throw refusal (bad_request).
    std::uint64_t read_varint() {
        if (at_ != end_ && std::to_integer<unsigned>(*at_) < 0x80) return std::to_integer<std::uint64_t>(*at_++);
        return read_long_varint();
    }
    template <typename T>
    T read_fixed() {
        if (left() < sizeof(T)) refuse_message("it ends in a number");
        T value;
        std::memcpy(&value, at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }
    std::span<const std::byte> read_bytes() {
        const std::size_t size = read_length();
        if (left() < size) refuse_message("a length is beyond its end");
        const std::byte* const begin = at_;
        at_ += size;
        return {begin, size};
    }
    // UTF-8.
    std::string_view read_text();
    wire_reader read_message() {
        const std::span<const std::byte> its = read_bytes();
        if (depth_ == 0) refuse_message("it is too deep");
        return wire_reader(its, depth_ - 1);
    }
    void skip(field its);

    std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
    std::span<const std::byte> rest() const noexcept { return {at_, left()}; }

private:
    std::uint32_t read_tag() {
        if (std::to_integer<unsigned>(*at_) < 0x80) return std::to_integer<std::uint32_t>(*at_++);
        return read_long_tag();
    }
    std::uint32_t read_long_tag();
    std::size_t read_length() {
        if (at_ != end_ && std::to_integer<unsigned>(*at_) < 0x80) return std::to_integer<std::size_t>(*at_++);
        return read_long_length();
    }
    std::size_t read_long_length();
    std::uint64_t read_long_varint();
    void skip_group(std::uint32_t number);

    const std::byte* at_;
    const std::byte* end_;
    int depth_;
};

}  // namespace sluice::serve
