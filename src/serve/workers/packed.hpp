// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as bytes, for messages between the front and its workers. Both run on one machine, so numbers are
// as they are in memory. The reader trusts nothing: what is not there, or longer than what is there, throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"

namespace sluice::serve {

// What the other side has sent is no message, or has lengths and indices that do not fit. The side is not used again.
class worker_damage : public error {
public:
    explicit worker_damage(std::string_view why) : error(errc::io_failed, why) {}
};

class packed_writer {
public:
    template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
    void put(T value) {
        const auto* const from = reinterpret_cast<const char*>(&value);
        bytes_.append(from, sizeof(value));
    }
    void put(std::string_view text) {
        put(static_cast<std::uint64_t>(text.size()));
        bytes_.append(text);
    }

    const std::string& bytes() const noexcept { return bytes_; }
    std::string take() { return std::move(bytes_); }

private:
    std::string bytes_;
};

class packed_reader {
public:
    explicit packed_reader(std::string_view bytes) noexcept : left_(bytes) {}

    template <typename T>
    requires std::is_arithmetic_v<T>
    T number() {
        if constexpr (std::is_same_v<T, bool>) {
            return number<std::uint8_t>() != 0;
        } else {
            T value{};
            take(sizeof(T)).copy(reinterpret_cast<char*>(&value), sizeof(T));
            return value;
        }
    }
    // One of the values from 0 to `last`.
    template <typename T>
    T one_of(T last) {
        const auto value = number<std::underlying_type_t<T>>();
        if (value < 0 || value > static_cast<std::underlying_type_t<T>>(last))
            throw worker_damage("a message has a value that there is not");
        return static_cast<T>(value);
    }
    std::string text() { return std::string(take(number<std::uint64_t>())); }
    // How many elements follow, of which each takes at least `bytes`: never more than there is room for.
    std::size_t count(std::size_t bytes) {
        const auto count = number<std::uint64_t>();
        if (count > left_.size() / bytes) throw worker_damage("a message is shorter than it says");
        return static_cast<std::size_t>(count);
    }
    void require_end() const {
        if (!left_.empty()) throw worker_damage("a message is longer than it says");
    }

private:
    std::string_view take(std::uint64_t bytes) {
        if (bytes > left_.size()) throw worker_damage("a message is shorter than it says");
        const std::string_view taken = left_.substr(0, static_cast<std::size_t>(bytes));
        left_.remove_prefix(static_cast<std::size_t>(bytes));
        return taken;
    }

    std::string_view left_;
};

}  // namespace sluice::serve
