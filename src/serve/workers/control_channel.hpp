// SPDX-License-Identifier: Apache-2.0
// control_channel: one end of the sockets over which the front and a worker speak of models. Messages have any length:
// they are cut into packets (SOCK_SEQPACKET). When a side dies, the other one reads what it has sent, and then the end.
//
// Thread safety: one thread may send while another one receives.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/io/file_descriptor.hpp"

namespace sluice::serve {

class control_channel {
public:
    static constexpr std::size_t longest_message = std::size_t{1} << 30;  // a model may have many texts

    explicit control_channel(io::file_descriptor socket);
    // Two ends of one channel. Throws error (errc::io_failed) where the system has none.
    static std::pair<io::file_descriptor, io::file_descriptor> make_pair();

    int descriptor() const noexcept { return socket_.get(); }
    bool has_ended() const noexcept { return has_ended_; }  // the other side's end was read

    enum class sent {
        whole,
        part,     // there is no room for the rest now: this message is to be sent again, and continues there
        nothing,  // the same, and there was no room at all: the other side has not read for some time
        broken,   // the other side is gone
    };
    // Does not block.
    sent send(std::string_view message) noexcept;
    // Blocks until there is room. False: the other side is gone.
    bool send_all(std::string_view message) const noexcept;

    // The next message. Blocks if `blocks`; else none where there is no whole one yet. None at the end. Throws
    // worker_damage for a message that is longer than any.
    std::optional<std::string> receive(bool blocks);

private:
    bool send_from(std::size_t& begin, std::string_view message, int flags) const noexcept;

    io::file_descriptor socket_;
    std::size_t sent_bytes_ = 0;  // of a message that send() has begun
    std::string part_;            // of a message, that has come
    std::vector<char> packet_;
    bool has_ended_ = false;
};

}  // namespace sluice::serve
