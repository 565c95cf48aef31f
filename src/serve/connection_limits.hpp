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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace sluice::serve {

class connection_limits {
public:
    using address = std::array<unsigned char, 16>;  // of IPv6, or of IPv4 in it
    // Who counts: an address of IPv4, or all of a network of IPv6 (/64), of which a client has as many as it likes.
    using client = address;

    // Throws error (invalid_argument) for a text in `proxies` that is no address.
    connection_limits(std::size_t most, std::size_t most_of_client, const std::vector<std::string>& proxies);

    // A connection, as long as this is there.
    class place {
    public:
        place(connection_limits& of, const std::optional<client>& counts_for, bool is_proxy) noexcept
            : of_(of), counts_for_(counts_for), is_proxy_(is_proxy) {}
        place(const place&) = delete;  // it counts once
        place& operator=(const place&) = delete;
        ~place() { of_.leave(counts_for_, held_); }
        // Its client speaks for others.
        bool is_proxy() const noexcept { return is_proxy_; }
        // Of a proxy's connection: it counts for the client that `forwarded` names from now on, or for no client where
        // it names none. False: that client has too many, and nothing changes. `forwarded` is the list of a field
        // X-Forwarded-For: the last address there that is none of a proxy, because who comes before a proxy can write
        // what it likes. Needs the thread of the connection. Throws std::bad_alloc.
        bool count_for(std::string_view forwarded);
        // What the connection makes the server keep, from now on. False, and nothing changes: it would be more than
        // `most`, with all other connections that count for the same client. Not together with count_for(). Needs the
        // thread of the connection.
        bool hold(std::size_t bytes, std::size_t most) noexcept;

    private:
        connection_limits& of_;
        std::optional<client> counts_for_;
        std::size_t held_ = 0;
        const bool is_proxy_;
    };

    enum class refusal { none, too_many, too_many_of_client };
    struct entry {
        std::shared_ptr<place> its;  // none: refused
        refusal why = refusal::none;
    };
    // `more`: beyond the limit of all. Addresses of this machine, proxies, and sockets of another kind than IP have
    // only the limit of all; see place::count_for. Throws std::bad_alloc.
    entry enter(const sockaddr* from, std::size_t more = 0);

    std::size_t size() const;

private:
    std::optional<client> forwarded_client(std::string_view list) const;
    bool is_proxy(const address& its) const noexcept;
    bool count(const std::optional<client>& one);  // these need the mutex
    bool may_count(const std::optional<client>& one) const;
    void forget(const std::optional<client>& one) noexcept;
    void leave(const std::optional<client>& one, std::size_t held) noexcept;

    struct load {
        std::size_t connections = 0, held_bytes = 0;
    };

    const std::size_t most_, most_of_client_;
    std::vector<address> proxies_;
    mutable std::mutex mutex_;  // of what follows
    std::size_t all_ = 0;
    std::map<client, load> of_client_;
};

}  // namespace sluice::serve
