// SPDX-License-Identifier: Apache-2.0
// http_stream: the bytes of one connection, as they are or through TLS.
//
// Without TLS each call is the socket's own. With TLS, OpenSSL reads and writes the socket, and Asio says when it can
// be read or written. The owner of the stream lives until the handlers have run.
//
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "serve/tls/tls_session.hpp"

namespace sluice::serve {

class http_stream {
public:
    using error_code = boost::system::error_code;
    using socket_type = boost::asio::ip::tcp::socket;
    using two_parts = std::array<boost::asio::const_buffer, 2>;

    // Takes TLS from begin_tls on.
    explicit http_stream(socket_type socket) : socket_(std::move(socket)) {}

    socket_type& socket() noexcept { return socket_; }
    bool has_tls() const noexcept { return tls_ != nullptr; }
    void begin_tls(std::unique_ptr<tls_session> session) noexcept { tls_ = std::move(session); }
    // From here on without TLS: for a client that has not spoken it.
    void leave_tls() noexcept { tls_.reset(); }
    const tls_session& tls() const noexcept { return *tls_; }

    // With TLS only. handler(error_code)
    template <typename Handler>
    void async_handshake(Handler handler) {
        const tls_state state = tls_->shake_hands();
        if (!is_waiting(state)) {
            boost::asio::post(socket_.get_executor(), [failure = failure_of(state),
                                                       handler = std::move(handler)]() mutable { handler(failure); });
            return;
        }
        socket_.async_wait(wait_of(state), [this, handler = std::move(handler)](const error_code& failure) mutable {
            if (failure || !socket_.is_open()) return handler(failure_or_closed(failure));
            async_handshake(std::move(handler));
        });
    }

    // handler(error_code, bytes)
    template <typename Handler>
    void async_read_some(boost::asio::mutable_buffer into, Handler handler) {
        if (!tls_) return socket_.async_read_some(into, std::move(handler));
        if (!tls_->has_pending()) return read_after(socket_type::wait_read, into, std::move(handler));
        boost::asio::post(socket_.get_executor(),
                          [this, into, handler = std::move(handler)]() mutable { read_now(into, std::move(handler)); });
    }

    template <typename Handler>
    void async_write_some(const two_parts& from, Handler handler) {
        if (!tls_) return socket_.async_write_some(from, std::move(handler));
        socket_.async_wait(write_waits_for_,
                           [this, from, handler = std::move(handler)](const error_code& failure) mutable {
                               if (failure || !socket_.is_open()) return handler(failure_or_closed(failure), 0);
                               error_code its;
                               const std::size_t written = write_some(from, its);
                               if (its == boost::asio::error::would_block)
                                   return async_write_some(from, std::move(handler));
                               handler(its, written);
                           });
    }

    // Whether bytes have come that are not read. Asks the system.
    bool has_input() {
        error_code ignored;
        return (tls_ && tls_->has_pending()) || socket_.available(ignored) != 0;
    }

    // Without a wait. would_block: the next write has the same bytes.
    std::size_t write_some(const two_parts& from, error_code& failure) {
        return tls_ ? write_tls(from, failure) : socket_.write_some(from, failure);
    }

    // An interim answer, without a wait. False: the connection is of no use any more.
    bool write_interim(std::string_view text) {
        if (tls_) return tls_->write_soon(text) != tls_state::broken;
        error_code failure;
        const std::size_t sent = socket_.write_some(boost::asio::buffer(text), failure);
        if (failure) return failure == boost::asio::error::would_block;
        return sent == text.size();  // what follows a part would be no answer
    }

    // Says that nothing more comes. handler(error_code)
    template <typename Handler>
    void async_end_output(Handler handler) {
        if (tls_ && tls_->end_output() == tls_state::wants_write) {
            socket_.async_wait(socket_type::wait_write,
                               [this, handler = std::move(handler)](const error_code& failure) mutable {
                                   if (failure || !socket_.is_open()) return handler(failure_or_closed(failure));
                                   async_end_output(std::move(handler));
                               });
            return;
        }
        error_code failure;
        socket_.shutdown(socket_type::shutdown_send, failure);
        handler(failure);
    }

    void close() noexcept {
        error_code ignored;
        if (tls_ && socket_.is_open()) static_cast<void>(tls_->end_output());
        socket_.close(ignored);
    }

private:
    static constexpr std::size_t record_bytes = 16384;  // of TLS, at most

    static bool is_waiting(tls_state state) {
        return state == tls_state::wants_read || state == tls_state::wants_write;
    }
    static socket_type::wait_type wait_of(tls_state state) {
        return state == tls_state::wants_write ? socket_type::wait_write : socket_type::wait_read;
    }
    static error_code failure_of(tls_state state) {
        if (state == tls_state::done) return {};
        return state == tls_state::ended ? error_code(boost::asio::error::eof) : boost::asio::error::connection_reset;
    }
    static error_code failure_or_closed(const error_code& failure) {
        return failure ? failure : error_code(boost::asio::error::operation_aborted);
    }

    template <typename Handler>
    void read_after(socket_type::wait_type what, boost::asio::mutable_buffer into, Handler handler) {
        socket_.async_wait(what, [this, into, handler = std::move(handler)](const error_code& failure) mutable {
            if (failure) return handler(failure, 0);
            read_now(into, std::move(handler));
        });
    }

    template <typename Handler>
    void read_now(boost::asio::mutable_buffer into, Handler handler) {
        if (!socket_.is_open()) return handler(failure_or_closed({}), 0);
        std::size_t all = 0;
        tls_state state = tls_state::done;
        while (all < into.size()) {
            std::size_t bytes = 0;
            state = tls_->read(static_cast<std::byte*>(into.data()) + all, into.size() - all, bytes);
            all += bytes;
            // Only a full record says that there may be more: to ask costs a call of the system.
            if (state != tls_state::done || (bytes < record_bytes && !tls_->has_pending())) break;
        }
        if (all != 0) return handler(error_code{}, all);  // the next read says what the state is
        if (is_waiting(state)) return read_after(wait_of(state), into, std::move(handler));
        handler(failure_of(state), 0);
    }

    // Record by record, both parts in one where they fit. A record that had to wait is made of the same bytes again.
    std::size_t write_tls(two_parts from, error_code& failure) {
        std::size_t all = 0;
        failure = {};
        while (from[0].size() + from[1].size() != 0) {
            const boost::asio::const_buffer record = next_record(from);
            std::size_t written = 0;
            const tls_state state = tls_->write(record.data(), record.size(), written);
            write_waits_for_ = is_waiting(state) ? wait_of(state) : socket_type::wait_write;
            if (state != tls_state::done) {
                if (all == 0)
                    failure = is_waiting(state) ? error_code(boost::asio::error::would_block) : failure_of(state);
                return all;
            }
            all += written;
            const std::size_t of_first = std::min(written, from[0].size());
            from[0] += of_first;
            from[1] += written - of_first;
        }
        return all;
    }

    boost::asio::const_buffer next_record(const two_parts& from) {
        const boost::asio::const_buffer& first = from[0].size() != 0 ? from[0] : from[1];
        const std::size_t size = std::min(first.size(), record_bytes);
        if (from[0].size() == 0 || from[1].size() == 0 || size == record_bytes) return {first.data(), size};
        joined_.assign(static_cast<const char*>(from[0].data()), size);
        joined_.append(static_cast<const char*>(from[1].data()), std::min(from[1].size(), record_bytes - size));
        return boost::asio::buffer(joined_);
    }

    socket_type socket_;
    std::unique_ptr<tls_session> tls_;
    std::string joined_;
    socket_type::wait_type write_waits_for_ = socket_type::wait_write;
};

}  // namespace sluice::serve
