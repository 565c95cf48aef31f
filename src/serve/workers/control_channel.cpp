// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/control_channel.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "serve/workers/packed.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t packet_bytes = std::size_t{32} << 10;
constexpr std::size_t longest_message = std::size_t{1} << 30;  // a model may have many texts

constexpr char is_last = 'e', is_more = 'm';  // the first byte of a packet

}  // namespace

control_channel::control_channel(io::file_descriptor socket) : socket_(std::move(socket)), packet_(packet_bytes + 2) {}

std::pair<io::file_descriptor, io::file_descriptor> control_channel::make_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw error(errc::io_failed, "no sockets for a worker process: " + std::generic_category().message(errno));
    return {io::file_descriptor(ends[0]), io::file_descriptor(ends[1])};
}

control_channel::sent control_channel::send(std::string_view message, int flags) const noexcept {
    bool is_first = true;
    do {
        const std::string_view part = message.substr(0, packet_bytes);
        message.remove_prefix(part.size());
        char mark = message.empty() ? is_last : is_more;
        std::array<iovec, 2> parts{{{&mark, 1}, {const_cast<char*>(part.data()), part.size()}}};
        msghdr packet{};
        packet.msg_iov = parts.data();
        packet.msg_iovlen = parts.size();
        ssize_t got = 0;
        do got = ::sendmsg(socket_.get(), &packet, MSG_NOSIGNAL | flags);
        while (got < 0 && errno == EINTR);
        const bool has_no_room = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        if (got < 0) return has_no_room && is_first ? sent::nothing : sent::broken;
        is_first = false;
    } while (!message.empty());
    return sent::whole;
}

control_channel::sent control_channel::send(std::string_view message) const noexcept {
    return send(message, MSG_DONTWAIT);
}

bool control_channel::send_all(std::string_view message) const noexcept { return send(message, 0) == sent::whole; }

std::optional<std::string> control_channel::receive(bool blocks) {
    while (!has_ended_) {
        const ssize_t got = ::recv(socket_.get(), packet_.data(), packet_.size(), blocks ? 0 : MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
        if (got <= 0) {
            has_ended_ = true;
            break;
        }
        const auto bytes = static_cast<std::size_t>(got);
        if (bytes > packet_bytes + 1 || part_.size() + bytes > longest_message)
            throw worker_damage("a message is longer than any");
        part_.append(packet_.data() + 1, bytes - 1);
        if (packet_.front() != is_last) continue;
        return std::exchange(part_, {});
    }
    return std::nullopt;
}

}  // namespace sluice::serve
