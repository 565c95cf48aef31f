// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/tls_session.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <utility>

#include "serve/tls/openssl_error.hpp"
#include "serve/tls/socket_bio.hpp"

namespace sluice::serve {

void tls_session::deleter::operator()(ssl_st* made) const noexcept { ::SSL_free(made); }

// OpenSSL keeps its errors in a queue of the thread, so each call empties it before and after.
tls_state tls_session::state_after(int result) {
    if (result > 0) return tls_state::done;
    switch (::SSL_get_error(made_.get(), result)) {
        case SSL_ERROR_WANT_READ: return tls_state::wants_read;
        case SSL_ERROR_WANT_WRITE: return tls_state::wants_write;
        case SSL_ERROR_ZERO_RETURN: return tls_state::ended;
        default: break;
    }
    const unsigned long first = ::ERR_peek_error();
    is_plain_http_ =
        !has_shaken_hands_ && ERR_GET_LIB(first) == ERR_LIB_SSL && ERR_GET_REASON(first) == SSL_R_HTTP_REQUEST;
    is_broken_ = true;
    const long check = ::SSL_get_verify_result(made_.get());
    why_broken_ = take_openssl_error();
    if (check != X509_V_OK) why_broken_ = ::X509_verify_cert_error_string(check);
    return tls_state::broken;
}

tls_state tls_session::shake_hands() noexcept {
    if (is_broken_) return tls_state::broken;
    ::ERR_clear_error();
    const tls_state state = state_after(::SSL_do_handshake(made_.get()));
    has_shaken_hands_ = state == tls_state::done;
    return state;
}

tls_state tls_session::read(void* into, std::size_t room, std::size_t& bytes) noexcept {
    bytes = 0;
    if (is_broken_) return tls_state::broken;
    ::ERR_clear_error();
    return state_after(::SSL_read_ex(made_.get(), into, room, &bytes));
}

bool tls_session::has_pending() const noexcept { return ::SSL_pending(made_.get()) != 0; }

bool tls_session::may_read_more() const noexcept {
    return !is_broken_ && !is_socket_empty(::SSL_get_rbio(made_.get()));
}

tls_state tls_session::finish_write() noexcept {
    if (unfinished_.empty()) return tls_state::done;
    ::ERR_clear_error();
    std::size_t bytes = 0;
    const tls_state state = state_after(::SSL_write_ex(made_.get(), unfinished_.data(), unfinished_.size(), &bytes));
    if (state == tls_state::done) unfinished_.erase(0, bytes);
    return state == tls_state::done && !unfinished_.empty() ? finish_write() : state;
}

tls_state tls_session::write(const void* from, std::size_t size, std::size_t& bytes) noexcept {
    bytes = 0;
    if (is_broken_) return tls_state::broken;
    if (const tls_state before = finish_write(); before != tls_state::done) return before;
    ::ERR_clear_error();
    const tls_state state = state_after(::SSL_write_ex(made_.get(), from, size, &bytes));
    is_writing_ = state != tls_state::done;
    return state;
}

tls_state tls_session::write_soon(std::string_view text) {
    if (is_broken_) return tls_state::broken;
    unfinished_ += text;
    return finish_write();
}

tls_state tls_session::end_output() noexcept {
    // In the middle of an answer the end would be a lie; the client sees a connection that breaks.
    if (is_broken_ || !has_shaken_hands_ || is_writing_) return tls_state::done;
    if (finish_write() == tls_state::wants_write) return tls_state::wants_write;
    if (is_broken_) return tls_state::done;
    ::ERR_clear_error();
    const int result = ::SSL_shutdown(made_.get());
    if (result >= 0) return tls_state::done;  // the peer's own close_notify is not waited for
    return state_after(result) == tls_state::wants_write ? tls_state::wants_write : tls_state::done;
}

}  // namespace sluice::serve
