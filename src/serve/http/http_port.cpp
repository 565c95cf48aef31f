// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/http_port.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/http_front.hpp"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

tcp::endpoint endpoint_of(const http_options& options) {
    boost::system::error_code failure;
    const auto address = asio::ip::make_address(options.address, failure);
    if (failure) {
        throw error(errc::invalid_argument, in_quotes(options.address) +
                                                " is no address to listen on; accepted is one of IPv4 or IPv6, such as "
                                                "127.0.0.1, 0.0.0.0 or ::1");
    }
    return {address, options.port};
}

bool set(int socket, int option) {
    const int on = 1;
    return ::setsockopt(socket, SOL_SOCKET, option, &on, sizeof(on)) == 0;
}

// A socket that is bound there, and the number of its port in `at`; -1 and errno when that fails.
int bound_to(tcp::endpoint& at, bool shares_port) {
    const int socket = ::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return -1;
    tcp::endpoint found;
    auto size = static_cast<socklen_t>(found.capacity());
    if (set(socket, SO_REUSEADDR) && (!shares_port || set(socket, SO_REUSEPORT)) &&
        ::bind(socket, at.data(), static_cast<socklen_t>(at.size())) == 0 &&
        ::getsockname(socket, found.data(), &size) == 0) {
        found.resize(size);
        at = found;
        return socket;
    }
    const int why = errno;
    ::close(socket);
    errno = why;
    return -1;
}

}  // namespace

http_port::http_port(const http_options& options) {
    tcp::endpoint at = endpoint_of(options);
    if (options.threads == 0) throw error(errc::invalid_argument, "a front end needs a thread");
    name_ = options.address + ", port " + std::to_string(options.port);
    is_v6_ = at.address().is_v6();
    sockets_.reserve(options.threads);
    for (std::size_t i = 0; i < options.threads; ++i) {
        const int made = bound_to(at, options.threads > 1 || options.shares_port);
        if (made < 0) {
            const std::string why = std::generic_category().message(errno);
            for (const int each : sockets_) ::close(each);
            throw error(errc::io_failed, "cannot listen on " + name_ + ": " + why);
        }
        sockets_.push_back(made);
    }
    number_ = at.port();
}

http_port::http_port(http_port&& from) noexcept
    : sockets_(std::exchange(from.sockets_, {})),
      number_(std::exchange(from.number_, 0)),
      is_v6_(from.is_v6_),
      name_(std::move(from.name_)) {}

http_port& http_port::operator=(http_port&& from) noexcept {
    std::swap(sockets_, from.sockets_);
    std::swap(number_, from.number_);
    std::swap(is_v6_, from.is_v6_);
    std::swap(name_, from.name_);
    return *this;
}

http_port::~http_port() {
    for (const int each : sockets_) ::close(each);
}

}  // namespace sluice::serve
