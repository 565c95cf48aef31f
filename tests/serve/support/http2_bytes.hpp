// SPDX-License-Identifier: Apache-2.0
// Frames of HTTP/2, as a test writes them.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/support/raw_client.hpp"

namespace sluice::serve::testing {

inline std::string frame(int type, int flags, std::uint32_t stream, const std::string& payload = "") {
    std::string made;
    for (const int shift : {16, 8, 0}) made += static_cast<char>(payload.size() >> shift);
    made += static_cast<char>(type);
    made += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) made += static_cast<char>(stream >> shift);
    return made + payload;
}

// The beginning of a connection.
inline const std::string hello = std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + frame(4, 0, 0) + frame(4, 1, 0);

// Whether the answer to a PING with these 8 bytes is in what has come.
inline bool has_answer_to_ping(std::string_view received, const std::string& with) {
    return received.find(frame(6, 1, 0, with)) != std::string_view::npos;
}

// What comes, until it has the answer to this PING, or the server ends the connection.
inline bool gets_answer_to_ping(raw_client& client, const std::string& with) {
    std::string received;
    std::array<char, 4096> some{};
    while (!has_answer_to_ping(received, with)) {
        const ssize_t got = ::recv(client.socket(), some.data(), some.size(), 0);
        if (got <= 0) return false;
        received.append(some.data(), static_cast<std::size_t>(got));
    }
    return true;
}

}  // namespace sluice::serve::testing
