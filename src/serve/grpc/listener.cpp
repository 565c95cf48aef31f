// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/listener.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::serve {
namespace {

constexpr int most_waiting = 4096;     // connections that the system completes
constexpr int lack_milliseconds = 50;  // until the next attempt, when no descriptor is free

union any_address {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
};

// No names are looked up.
any_address address_of(const std::string& text, unsigned short port, socklen_t& size) {
    any_address made{};
    if (::inet_pton(AF_INET, text.c_str(), &made.v4.sin_addr) == 1) {
        made.v4.sin_family = AF_INET;
        made.v4.sin_port = htons(port);
        size = sizeof(made.v4);
        return made;
    }
    made = {};
    if (::inet_pton(AF_INET6, text.c_str(), &made.v6.sin6_addr) == 1) {
        made.v6.sin6_family = AF_INET6;
        made.v6.sin6_port = htons(port);
        size = sizeof(made.v6);
        return made;
    }
    throw error(errc::invalid_argument,
                in_quotes(text) +
                    " is no address to listen on; accepted is one of IPv4 or IPv6, such as 127.0.0.1, 0.0.0.0 or ::1");
}

bool set(int socket, int option) {
    const int on = 1;
    return ::setsockopt(socket, SOL_SOCKET, option, &on, sizeof(on)) == 0;
}

}  // namespace

grpc_listener::grpc_listener(const std::string& address, unsigned short port, bool shares_port) {
    socklen_t size = 0;
    any_address at = address_of(address, port, size);
    socket_ = io::file_descriptor(::socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ends_ = io::file_descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!socket_ || !ends_ || !set(socket_.get(), SO_REUSEADDR) || (shares_port && !set(socket_.get(), SO_REUSEPORT)) ||
        ::bind(socket_.get(), &at.any, size) != 0 || ::listen(socket_.get(), most_waiting) != 0 ||
        ::getsockname(socket_.get(), &at.any, &size) != 0) {
        const std::string why = std::generic_category().message(errno);
        throw error(errc::io_failed,
                    "cannot listen for gRPC on " + address + ", port " + std::to_string(port) + ": " + why);
    }
    port_ = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
}

void grpc_listener::start(acceptor to, std::size_t relays, const grpc_relay::options& how,
                          std::unique_ptr<connection_limits> limits) {
    to_ = std::move(to);
    limits_ = std::move(limits);
    for (std::size_t i = 0; i < relays; ++i) relays_.push_back(std::make_unique<grpc_relay>(how));
    thread_ = std::thread([this] { work(); });
}

void grpc_listener::stop() noexcept {
    const std::uint64_t one = 1;
    if (thread_.joinable()) {
        static_cast<void>(::write(ends_.get(), &one, sizeof(one)) == sizeof(one));  // it cannot be full
        thread_.join();
    }
    socket_ = {};
    if (grpcs_end_ >= 0) ::close(std::exchange(grpcs_end_, -1));
}

void grpc_listener::work() {
    std::array<pollfd, 2> looks{{{ends_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}}};
    while (true) {
        const bool has_room = accept_waiting();
        // Without a free descriptor the socket stays readable: only the end is waited for, and the time.
        const int found = ::poll(looks.data(), has_room ? 2 : 1, has_room ? -1 : lack_milliseconds);
        if (found > 0 && (looks[0].revents & POLLIN) != 0) break;
    }
    accept_waiting();
}

bool grpc_listener::accept_waiting() {
    while (has_pair()) {
        any_address from{};
        socklen_t size = sizeof(from);
        const int accepted = ::accept4(socket_.get(), &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (accepted < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
            // That connection has ended before it was accepted.
            if (errno == ECONNABORTED || errno == EPROTO || errno == EINTR) continue;
            return false;  // most often no descriptor is free
        }
        hand_over(accepted, &from.any);
    }
    return false;
}

bool grpc_listener::has_pair() noexcept {
    if (relays_end_) return true;
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0) return false;
    relays_end_ = io::file_descriptor(pair[0]);
    grpcs_end_ = pair[1];
    return true;
}

void grpc_listener::hand_over(int accepted, const sockaddr* from) {
    io::file_descriptor client(accepted);
    const int on = 1;
    ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::shared_ptr<connection_limits::place> place;
    try {
        connection_limits::entry entry = limits_->enter(from);
        if (entry.why == connection_limits::refusal::too_many && end_longest_idle()) entry = limits_->enter(from);
        place = std::move(entry.its);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is refused
    }
    if (!place) {
        ++refused_;
        return;
    }
    grpc_relay& relay = *relays_[next_relay_++ % relays_.size()];
    if (!relay.take(std::move(client), std::exchange(relays_end_, {}), std::move(place))) {
        ::close(std::exchange(grpcs_end_, -1));
        return;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = socket_.get();
    connection.fd = std::exchange(grpcs_end_, -1);
    to_->HandleNewConnection(&connection);
}

// Connections go to the relays in turn, so the oldest ones are with the next relay.
bool grpc_listener::end_longest_idle() noexcept {
    for (std::size_t i = 0; i < relays_.size(); ++i)
        if (relays_[(next_relay_ + i) % relays_.size()]->end_longest_idle()) return true;
    return false;
}

void grpc_listener::end_connections() noexcept {
    for (const auto& each : relays_) each->end();
}

std::uint64_t grpc_listener::abusers() const noexcept {
    std::uint64_t all = 0;
    for (const auto& each : relays_) all += each->abusers();
    return all;
}

}  // namespace sluice::serve
