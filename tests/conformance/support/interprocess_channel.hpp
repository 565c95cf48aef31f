// SPDX-License-Identifier: Apache-2.0
// The socket between a test and its peer, a process of its own: plain structures go over it, both ways.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace sluice::conformance {

// The peer's end of the socket.
inline constexpr int peer_descriptor = 3;

// A line of text, cut where it is too long.
struct short_text {
    short_text() = default;
    explicit short_text(std::string_view from) { from.copy(text.data(), text.size() - 1); }
    std::string_view view() const { return text.data(); }

    std::array<char, 1024> text{};
};

template <typename T>
void send_to(int socket, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* next = reinterpret_cast<const std::byte*>(&value);
    for (std::size_t left = sizeof(T); left != 0;) {
        const ssize_t sent = ::send(socket, next, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) throw std::system_error(errno, std::generic_category(), "send");
        next += sent;
        left -= static_cast<std::size_t>(sent);
    }
}

template <typename T>
T receive_from(int socket) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    auto* next = reinterpret_cast<std::byte*>(&value);
    for (std::size_t left = sizeof(T); left != 0;) {
        const ssize_t came = ::recv(socket, next, left, 0);
        if (came < 0 && errno == EINTR) continue;
        if (came < 0) throw std::system_error(errno, std::generic_category(), "recv");
        if (came == 0) throw std::runtime_error("the other process has ended");
        next += came;
        left -= static_cast<std::size_t>(came);
    }
    return value;
}

}  // namespace sluice::conformance
