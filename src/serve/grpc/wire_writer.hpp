// SPDX-License-Identifier: Apache-2.0
// Writes fields in protobuf's wire format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::serve {

class wire_writer {
public:
    const std::string& text() const noexcept { return text_; }

    void add_number(std::uint32_t field, std::uint64_t value) {
        add_varint(field << 3U);
        add_varint(value);
    }
    // A text, bytes or a message.
    void add_bytes(std::uint32_t field, std::string_view bytes) {
        begin_bytes(field, bytes.size());
        text_ += bytes;
    }
    // The bytes themselves follow.
    void begin_bytes(std::uint32_t field, std::size_t size) {
        add_varint((field << 3U) | 2U);
        add_varint(size);
    }
    void add_varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7U) text_.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
        text_.push_back(static_cast<char>(value));
    }

private:
    std::string text_;
};

}  // namespace sluice::serve
