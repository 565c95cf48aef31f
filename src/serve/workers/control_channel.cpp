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

constexpr char is_last = 'e', is_more = 'm';  // the first byte of a packet

}  // namespace

control_channel::control_channel(io::file_descriptor socket) : socket_(std::move(socket)), packet_(packet_bytes + 2) {}

std::pair<io::file_descriptor, io::file_descriptor> control_channel::make_pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw error(errc::io_failed, "no sockets for a worker process: " + std::generic_category().message(errno));
    return {io::file_descriptor(ends[0]), io::file_descriptor(ends[1])};
}

// Counts what is sent on. False: errno says why not all is.
bool control_channel::send_from(std::size_t& begin, std::string_view message, int flags) const noexcept {
    do {
        const std::string_view part = message.substr(begin, packet_bytes);
        char mark = begin + part.size() == message.size() ? is_last : is_more;
        std::array<iovec, 2> parts{{{&mark, 1}, {const_cast<char*>(part.data()), part.size()}}};
        msghdr packet{};
        packet.msg_iov = parts.data();
        packet.msg_iovlen = parts.size();
        ssize_t got = 0;
        do got = ::sendmsg(socket_.get(), &packet, MSG_NOSIGNAL | flags);
        while (got < 0 && errno == EINTR);
        if (got < 0) return false;
        begin += part.size();
    } while (begin != message.size());
    return true;
}

control_channel::sent control_channel::send(std::string_view message) noexcept {
    const std::size_t before = sent_bytes_;
    if (send_from(sent_bytes_, message, MSG_DONTWAIT)) {
        sent_bytes_ = 0;
        return sent::whole;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) return sent::broken;
    return sent_bytes_ == before ? sent::nothing : sent::part;
}

bool control_channel::send_all(std::string_view message) const noexcept {
    std::size_t begin = 0;
    return send_from(begin, message, 0);
}

std::optional<std::string> control_channel::receive(bool blocks) {
    while (!has_ended_) {
        const ssize_t got = ::recv(socket_.get(), packet_.data(), packet_.size(), blocks ? 0 : MSG_DONTWAIT);
        // A side that ends before it has read all resets the channel, once: what it has sent is still there.
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
        if (got <= 0) {
            has_ended_ = true;
            break;
        }
        const auto bytes = static_cast<std::size_t>(got);
        if (bytes > packet_bytes + 1 || part_.size() + bytes - 1 > longest_message)
            throw worker_damage("a message is longer than any");
        part_.append(packet_.data() + 1, bytes - 1);
        if (packet_.front() != is_last) continue;
        return std::exchange(part_, {});
    }
    return std::nullopt;
}

}  // namespace sluice::serve
