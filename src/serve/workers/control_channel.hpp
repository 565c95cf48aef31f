// SPDX-License-Identifier: Apache-2.0
// control_channel: one end of the sockets over which the front and a worker speak of models. Messages have any length:
// they are cut into packets (SOCK_SEQPACKET). When a side dies, the other one reads the end.
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
    explicit control_channel(io::file_descriptor socket);
    // Two ends of one channel. Throws error (errc::io_failed) where the system has none.
    static std::pair<io::file_descriptor, io::file_descriptor> make_pair();

    int descriptor() const noexcept { return socket_.get(); }
    bool has_ended() const noexcept { return has_ended_; }  // the other side's end was read

    enum class sent {
        whole,
        nothing,  // there is no room now: the other side has not read for some time
        broken,   // the other side is gone, or there was room for a part only: the channel is of no more use
    };
    // Does not block.
    sent send(std::string_view message) const noexcept;
    // Blocks until there is room. False: the other side is gone.
    bool send_all(std::string_view message) const noexcept;

    // The next message. Blocks if `blocks`; else none where there is no whole one yet. None at the end. Throws
    // worker_damage for a message that is longer than any.
    std::optional<std::string> receive(bool blocks);

private:
    sent send(std::string_view message, int flags) const noexcept;

    io::file_descriptor socket_;
    std::string part_;  // of a message, that has come
    std::vector<char> packet_;
    bool has_ended_ = false;
};

}  // namespace sluice::serve
