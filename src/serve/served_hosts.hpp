// SPDX-License-Identifier: Apache-2.0
// served_hosts: the names by which requests may call this server (Host of HTTP, :authority of gRPC).
//
// Why: a page of another site can have its own name lead to this machine (DNS rebinding). The browser then takes the
// server for that site and lets the page read its answers. The name is the one thing that gives the page away.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::serve {

class served_hosts {
public:
    // `address`: which the server listens on. On one of this machine only, names are always looked at; elsewhere only
    // where there are some. Throws error (invalid_argument) for a text that is no name or address of a host.
    served_hosts(const std::string& address, const std::vector<std::string>& names);

    // Of "localhost:8000", "127.0.0.1", "[::1]:8000"; the port is not looked at. Where others than this machine reach
    // the server, any address is accepted: a balancer asks for a server's health by it, and no page of another site
    // has an address for its name.
    bool accepts(std::string_view authority) const noexcept;
    // For a client whose host is not accepted.
    std::string why_not(std::string_view authority) const;

private:
    bool is_on_loopback_;
    bool are_looked_at_;
    std::vector<std::string> names_;  // in lower case
};

}  // namespace sluice::serve
