// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/listener.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

// No other socket has it. 0: this is no socket.
ino_t socket_number(int descriptor) {
    struct stat status{};
    return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
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

void grpc_listener::start(acceptor to) {
    to_ = std::move(to);
    thread_ = std::thread([this] { work(); });
}

void grpc_listener::stop() noexcept {
    const std::uint64_t one = 1;
    if (thread_.joinable()) {
        static_cast<void>(::write(ends_.get(), &one, sizeof(one)) == sizeof(one));  // it cannot be full
        thread_.join();
    }
    socket_ = {};
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
    while (true) {
        const int accepted = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (accepted < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
            // That connection has ended before it was accepted.
            if (errno == ECONNABORTED || errno == EPROTO || errno == EINTR) continue;
            return false;  // most often no descriptor is free
        }
        hand_over(accepted);
    }
}

void grpc_listener::hand_over(int accepted) {
    const int on = 1;
    ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    try {
        if (const ino_t number = socket_number(accepted); number != 0) handed_over_[accepted] = number;
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then it ends with gRPC's server
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = socket_.get();
    connection.fd = accepted;  // it is gRPC's now
    to_->HandleNewConnection(&connection);
}

void grpc_listener::end_connections() noexcept {
    for (const auto& [number, socket] : handed_over_) {
        // gRPC may close the descriptor at this moment, and another file may get its number. The copy stays what it is.
        const io::file_descriptor copy(::fcntl(number, F_DUPFD_CLOEXEC, 0));
        if (copy && socket_number(copy.get()) == socket) ::shutdown(copy.get(), SHUT_RDWR);
    }
    handed_over_.clear();
}

}  // namespace sluice::serve
