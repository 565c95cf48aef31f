// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/relayed_connection.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace sluice::serve {
namespace {

constexpr int most_turns = 16;  // before other connections have theirs

bool is_for_later(int failure) { return failure == EAGAIN || failure == EWOULDBLOCK || failure == EINTR; }

constexpr unsigned char no_error = 0, enhance_your_calm = 0xb;  // RFC 9113, section 7

}  // namespace

relayed_connection::relayed_connection(io::file_descriptor client, io::file_descriptor to_grpc,
                                       std::shared_ptr<connection_limits::place> place,
                                       const std::shared_ptr<request_budget>& budget,
                                       const std::shared_ptr<const tls_context>& context, clock::time_point hands_until)
    : client_(std::move(client)),
      to_grpc_(std::move(to_grpc)),
      place_(std::move(place)),
      share_(budget),
      most_of_budget_(budget->most_bytes() / 4),
      watch_(place_->is_proxy()),
      hands_until_(hands_until),
      last_used_(clock::now()),
      is_shaking_hands_(context != nullptr) {
    if (!context) return;
    tls_ = context->session(client_.get());
    if (!tls_) throw std::bad_alloc();
}

relayed_connection::state relayed_connection::pump(std::span<std::byte> room) {
    if (is_shaking_hands_) {
        const tls_state now = tls_->shake_hands();
        if (now == tls_state::wants_read) return tls_->may_read_more() ? state::again : state::open;
        if (now == tls_state::wants_write) return state::open;
        if (now != tls_state::done) return state::ended;
        is_shaking_hands_ = false;
    }
    last_used_ = clock::now();
    may_read_client_ = may_read_grpc_ = true;
    for (int turn = 0; turn < most_turns; ++turn) {
        bool moved = false;
        if (!pump_down(room, moved)) return state::ended;
        if (!pump_up(room, moved)) {
            if (why_.empty()) return state::ended;
            say_goodbye(0, enhance_your_calm);
            return state::abused;
        }
        if (!moved) return state::open;
    }
    return state::again;
}

void relayed_connection::hang_up(int descriptor) noexcept {
    (descriptor == client_.get() ? has_client_hung_up_ : has_grpc_hung_up_) = true;
}

relayed_connection::result relayed_connection::read_client(std::span<std::byte> room, std::size_t& bytes) {
    if (tls_) {
        const tls_state now = tls_->read(room.data(), room.size(), bytes);
        if (now == tls_state::done) return result::done;
        if (now == tls_state::wants_read && tls_->may_read_more()) return result::nothing;
        if (now == tls_state::wants_read || now == tls_state::wants_write) return result::waits;
        return now == tls_state::ended ? result::ended : result::broken;
    }
    const ssize_t got = ::recv(client_.get(), room.data(), room.size(), 0);
    if (got < 0) return is_for_later(errno) ? result::waits : result::broken;
    bytes = static_cast<std::size_t>(got);
    // It becomes ready again with the next byte; but not where it ends after these.
    if (bytes < room.size() && !has_client_hung_up_) may_read_client_ = false;
    return got == 0 ? result::ended : result::done;
}

relayed_connection::result relayed_connection::write_client(std::span<const std::byte> from, std::size_t& bytes) {
    if (tls_) {
        const tls_state now = tls_->write(from.data(), from.size(), bytes);
        if (now == tls_state::done) return result::done;
        return now == tls_state::wants_read || now == tls_state::wants_write ? result::waits : result::broken;
    }
    const ssize_t sent = ::send(client_.get(), from.data(), from.size(), MSG_NOSIGNAL);
    if (sent < 0) return is_for_later(errno) ? result::waits : result::broken;
    bytes = static_cast<std::size_t>(sent);
    return result::done;
}

// False: the connection is over.
bool relayed_connection::pump_up(std::span<std::byte> room, bool& moved) {
    std::span<const std::byte> from = up_.rest();
    const bool is_kept = !from.empty();
    if (!is_kept && !has_client_ended_ && may_read_client_) {
        std::size_t bytes = 0;
        switch (read_client(room, bytes)) {
            case result::waits: may_read_client_ = false; return true;
            case result::nothing: moved = true; return true;
            case result::broken: return false;
            case result::ended: has_client_ended_ = true; break;
            case result::done:
                from = room.first(bytes);
                if (!watch(from)) return false;
        }
    }
    if (from.empty()) {
        if (has_client_ended_ && !std::exchange(has_said_so_, true)) ::shutdown(to_grpc_.get(), SHUT_WR);
        return true;
    }
    const ssize_t sent = ::send(to_grpc_.get(), from.data(), from.size(), MSG_NOSIGNAL);
    if (sent < 0 && !is_for_later(errno)) return false;
    const std::size_t taken = sent < 0 ? 0 : static_cast<std::size_t>(sent);
    if (is_kept)
        up_.take(taken);
    else if (taken < from.size())
        up_.keep(from.subspan(taken));
    moved = moved || taken != 0;
    return true;
}

bool relayed_connection::pump_down(std::span<std::byte> room, bool& moved) {
    std::span<const std::byte> from = down_.rest();
    const bool is_kept = !from.empty();
    if (!is_kept && !has_grpc_ended_ && may_read_grpc_) {
        const ssize_t got = ::recv(to_grpc_.get(), room.data(), room.size(), 0);
        may_read_grpc_ = got == static_cast<ssize_t>(room.size()) || (got > 0 && has_grpc_hung_up_);
        if (got < 0 && is_for_later(errno)) return true;
        if (got <= 0) has_grpc_ended_ = true;
        if (got > 0) from = room.first(static_cast<std::size_t>(got));
        watch_.from_server(from);
    }
    if (from.empty()) return !has_grpc_ended_;
    std::size_t taken = 0;
    if (write_client(from, taken) == result::broken) return false;
    if (is_kept)
        down_.take(taken);
    else if (taken < from.size())
        down_.keep(from.subspan(taken));
    moved = moved || taken != 0;
    return true;
}

// What has come from the client. False: it must go.
bool relayed_connection::watch(std::span<const std::byte> bytes) {
    const clock::time_point now = clock::now();
    if (watch_.from_client(bytes, now)) return charge(now);
    why_ = watch_.why();
    return false;
}

// Streams are a part of the memory for requests. Those of one client are at most a quarter of it.
bool relayed_connection::charge(clock::time_point now) noexcept {
    const std::size_t bytes = charged_bytes(now);
    if (place_->hold(bytes, most_of_budget_) && share_.hold(bytes)) return true;
    why_ = "the memory for requests is in use";
    return false;
}

std::size_t relayed_connection::charged_bytes(clock::time_point now) noexcept {
    const std::size_t streams = watch_.counted_streams(now);
    return streams > own_streams ? (streams - own_streams) * stream_bytes : 0;
}

void relayed_connection::look_at_time(clock::time_point now) noexcept {
    const std::size_t bytes = charged_bytes(now);
    place_->hold(bytes, most_of_budget_);  // fewer than before
    share_.hold_existing(bytes);
}

void relayed_connection::say_that_it_ends() noexcept {
    if (!is_shaking_hands_) say_goodbye(watch_.last_stream(), no_error);
}

// GOAWAY (RFC 9113, section 6.8).
void relayed_connection::say_goodbye(std::uint32_t last_stream, unsigned char why) noexcept {
    if (!down_.empty() || !watch_.is_between_answers()) return;  // it would be in the middle of a frame
    std::array<unsigned char, 17> goodbye{0, 0, 8, 7};
    for (std::size_t i = 0; i < 4; ++i) goodbye[9 + i] = static_cast<unsigned char>(last_stream >> (24 - 8 * i));
    goodbye[16] = why;
    std::size_t bytes = 0;
    if (tls_)
        static_cast<void>(tls_->write(goodbye.data(), goodbye.size(), bytes));
    else
        static_cast<void>(::send(client_.get(), goodbye.data(), goodbye.size(), MSG_NOSIGNAL));
}

void relayed_connection::finish(std::span<std::byte> room) noexcept {
    may_read_grpc_ = true;
    bool moved = !is_shaking_hands_ && why_.empty();
    while (moved) {
        moved = false;
        try {
            if (!pump_down(room, moved)) break;
        } catch (const std::bad_alloc&) {
            break;
        }
    }
    if (tls_ && down_.empty()) static_cast<void>(tls_->end_output());
    ::shutdown(client_.get(), SHUT_RDWR);
    ::shutdown(to_grpc_.get(), SHUT_RDWR);
}

}  // namespace sluice::serve
