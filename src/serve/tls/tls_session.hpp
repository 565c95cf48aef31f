// SPDX-License-Identifier: Apache-2.0
// tls_session: TLS on one socket that does not block. Only its source knows OpenSSL, so that a build without it needs
// only tls_absent.cpp.
//
// Thread safety: one thread at a time. The session does not own the socket.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct ssl_st;

namespace sluice::serve {

enum class tls_state {
    done,
    wants_read,   // again when the socket can be read
    wants_write,  // again, with the same bytes, when the socket can be written
    ended,        // the peer has said that it sends no more (close_notify)
    broken,       // an error: nothing can be read or written any more
};

class tls_session {
public:
    // Owns `made`, which reads and writes this socket.
    explicit tls_session(ssl_st* made) noexcept : made_(made) {}

    ssl_st* native() const noexcept { return made_.get(); }

    // As server or client, as the context says.
    tls_state shake_hands() noexcept;
    // Whether the handshake broke because the client speaks HTTP without TLS.
    bool is_plain_http() const noexcept { return is_plain_http_; }

    // Reads at least a byte when done.
    tls_state read(void* into, std::size_t room, std::size_t& bytes) noexcept;
    // Whether bytes are there without a look at the socket.
    bool has_pending() const noexcept;
    // After a read or a handshake that wants_read: it has come to the end of a message of the protocol (KeyUpdate, a
    // ticket), and the socket may have more. Who waits for a change of the socket must read again first.
    bool may_read_more() const noexcept;
    // Writes at least a byte when done.
    tls_state write(const void* from, std::size_t size, std::size_t& bytes) noexcept;
    // Writes all of a short text. What the socket does not take now goes before the next write.
    tls_state write_soon(std::string_view text);
    // Says that no more comes (close_notify). Done too where nothing can be said any more.
    tls_state end_output() noexcept;

    // Why the session broke, in OpenSSL's words or those of the check of the certificate.
    const std::string& why_broken() const noexcept { return why_broken_; }

private:
    struct deleter {
        void operator()(ssl_st* made) const noexcept;
    };

    tls_state state_after(int result);
    tls_state finish_write() noexcept;

    std::unique_ptr<ssl_st, deleter> made_;
    std::string unfinished_;  // of write_soon
    std::string why_broken_;
    bool is_broken_ = false;
    bool has_shaken_hands_ = false;
    bool is_writing_ = false;  // the last write was not finished
    bool is_plain_http_ = false;
};

}  // namespace sluice::serve
