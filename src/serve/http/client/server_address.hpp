// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::serve {

struct server_address {
    std::string host;  // a name or an address, without brackets
    std::string port;
    bool has_tls = false;
};

// "HOST:PORT", "http://HOST:PORT", "https://[::1]:8000/". Throws error(invalid_argument).
server_address parse_server_address(std::string_view text);
// As in the field Host: "[::1]:8000".
std::string to_string(const server_address& address);

}  // namespace sluice::serve
