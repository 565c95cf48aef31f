// SPDX-License-Identifier: Apache-2.0
// connection_limits: how many connections there may be, in all and of one address.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace sluice::serve {

class connection_limits {
public:
    using address = std::array<unsigned char, 16>;  // of IPv6, or of IPv4 in it

    // Throws error (invalid_argument) for a text in `proxies` that is no address.
    connection_limits(std::size_t most, std::size_t most_of_client, const std::vector<std::string>& proxies);

    // A connection, as long as this is there.
    class place {
    public:
        place(connection_limits& of, const address& from, bool counts_for_client, bool is_proxy) noexcept
            : of_(of), from_(from), counts_for_client_(counts_for_client), is_proxy_(is_proxy) {}
        place(const place&) = delete;  // it counts once
        place& operator=(const place&) = delete;
        ~place() { of_.leave(from_, counts_for_client_); }
        // Its client speaks for others.
        bool is_proxy() const noexcept { return is_proxy_; }

    private:
        connection_limits& of_;
        const address from_;
        const bool counts_for_client_, is_proxy_;
    };

    enum class refusal { none, too_many, too_many_of_client };
    struct entry {
        std::shared_ptr<place> its;  // none: refused
        refusal why = refusal::none;
    };
    // `more`: beyond the limit of all. Addresses of this machine, proxies, and sockets of another kind than IP have
    // only the limit of all. Throws std::bad_alloc.
    entry enter(const sockaddr* from, std::size_t more = 0);

    std::size_t size() const;

private:
    void leave(const address& from, bool counts_for_client) noexcept;

    const std::size_t most_, most_of_client_;
    std::vector<address> proxies_;
    mutable std::mutex mutex_;  // of what follows
    std::size_t all_ = 0;
    std::map<address, std::size_t> of_client_;
};

}  // namespace sluice::serve
