// SPDX-License-Identifier: Apache-2.0
// One connection of a grpc_relay: a client's socket and the other end of gRPC's.
//
// Thread safety: the relay's thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "serve/budget_share.hpp"
#include "serve/connection_limits.hpp"
#include "serve/grpc/http2_watch.hpp"
#include "serve/tls/tls_context.hpp"
#include "sluice/io/file_descriptor.hpp"

namespace sluice::serve {

class relayed_connection {
public:
    using clock = http2_watch::clock;

    // Neither descriptor blocks. `context`: for TLS, or empty.
    relayed_connection(io::file_descriptor client, io::file_descriptor to_grpc,
                       std::shared_ptr<connection_limits::place> place, const std::shared_ptr<request_budget>& budget,
                       const std::shared_ptr<const tls_context>& context, clock::time_point hands_until);

    int client() const noexcept { return client_.get(); }
    int to_grpc() const noexcept { return to_grpc_.get(); }

    enum class state : unsigned char {
        open,   // it waits for a descriptor to become ready
        again,  // others have their turn first
        ended,
        abused
    };
    // Passes on what can be passed on without a wait. To be called whenever a descriptor becomes ready. `room`: which
    // all connections of the thread share. Throws std::bad_alloc.
    state pump(std::span<std::byte> room);
    // The other side of this descriptor sends no more: after its last bytes comes the end, and no other change.
    void hang_up(int descriptor) noexcept;
    // Passes on what gRPC has written already, as far as the client takes it, and says that no more comes.
    void finish(std::span<std::byte> room) noexcept;

    // Its handshake takes too long, or it does not read what gRPC has left.
    bool is_late(clock::time_point now) const noexcept {
        return (is_shaking_hands_ && now > hands_until_) || (has_grpc_ended_ && now > last_used_ + reading_time);
    }
    // Says that no more streams are taken; those that the client opens meanwhile it may open elsewhere. Before
    // finish(), of a connection that is idle.
    void say_that_it_ends() noexcept;
    // Has no stream that is open.
    bool is_idle() const noexcept { return watch_.open_streams() == 0 && up_.empty() && down_.empty(); }
    clock::time_point last_used() const noexcept { return last_used_; }
    std::string_view why_abused() const noexcept { return why_; }
    // Gives back what streams that were reset have counted for.
    void look_at_time(clock::time_point now) noexcept;

private:
    // What gRPC keeps of a stream, roughly: measured for calls that are reset before their message.
    static constexpr std::size_t stream_bytes = 8 << 10;
    static constexpr std::size_t own_streams = 16;  // of each connection: they do not count

    // What the other side does not take yet. It has no memory where there is nothing.
    class buffer {
    public:
        bool empty() const noexcept { return begin_ == bytes_.size(); }
        std::span<const std::byte> rest() const noexcept { return std::span(bytes_).subspan(begin_); }
        void keep(std::span<const std::byte> bytes) { bytes_.assign(bytes.begin(), bytes.end()); }
        void take(std::size_t bytes) noexcept {
            begin_ += bytes;
            if (!empty()) return;
            bytes_ = {};
            begin_ = 0;
        }

    private:
        std::vector<std::byte> bytes_;
        std::size_t begin_ = 0;
    };
    enum class result : unsigned char { done, nothing, waits, ended, broken };  // nothing: but there may be more

    bool pump_up(std::span<std::byte> room, bool& moved);
    bool pump_down(std::span<std::byte> room, bool& moved);
    bool watch(std::span<const std::byte> bytes);
    bool charge(clock::time_point now) noexcept;
    std::size_t charged_bytes(clock::time_point now) noexcept;
    result read_client(std::span<std::byte> room, std::size_t& bytes);
    result write_client(std::span<const std::byte> from, std::size_t& bytes);
    void say_goodbye(std::uint32_t last_stream, unsigned char why) noexcept;

    const io::file_descriptor client_, to_grpc_;
    const std::shared_ptr<connection_limits::place> place_;
    std::unique_ptr<tls_session> tls_;
    budget_share share_;
    const std::size_t most_of_budget_;
    // For what gRPC has left when it has ended, since the client's last bytes or gRPC's.
    static constexpr std::chrono::seconds reading_time{10};
    http2_watch watch_;
    buffer up_, down_;  // to gRPC, to the client
    const clock::time_point hands_until_;
    clock::time_point last_used_;
    std::string_view why_;
    bool is_shaking_hands_;
    bool has_client_ended_ = false;  // it sends no more
    bool has_said_so_ = false;       // to gRPC
    bool has_grpc_ended_ = false;
    bool has_client_hung_up_ = false, has_grpc_hung_up_ = false;
    bool may_read_client_ = true, may_read_grpc_ = true;  // in this turn: there may be something
};

}  // namespace sluice::serve
