// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/socket_bio.hpp"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <new>

namespace sluice::serve {
namespace {

struct socket_state {
    int socket;
    bool is_empty;  // the last read has found nothing
};

socket_state& state_of(BIO* bio) { return *static_cast<socket_state*>(::BIO_get_data(bio)); }

bool is_for_later(int failure) { return failure == EAGAIN || failure == EWOULDBLOCK || failure == EINTR; }

int write_socket(BIO* bio, const char* from, std::size_t size, std::size_t* written) {
    BIO_clear_retry_flags(bio);
    const ssize_t sent = ::send(state_of(bio).socket, from, size, MSG_NOSIGNAL);
    *written = sent > 0 ? static_cast<std::size_t>(sent) : 0;
    if (sent > 0) return 1;
    if (sent < 0 && is_for_later(errno)) BIO_set_retry_write(bio);
    return 0;
}

int read_socket(BIO* bio, char* into, std::size_t room, std::size_t* read) {
    BIO_clear_retry_flags(bio);
    const ssize_t got = ::recv(state_of(bio).socket, into, room, 0);
    *read = got > 0 ? static_cast<std::size_t>(got) : 0;
    state_of(bio).is_empty = got < 0 && is_for_later(errno);
    if (got > 0) return 1;
    if (state_of(bio).is_empty) BIO_set_retry_read(bio);
    if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return 0;
}

long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int destroy(BIO* bio) {
    delete static_cast<socket_state*>(::BIO_get_data(bio));
    return 1;
}

struct method {
    method() noexcept : made(::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE")) {
        if (made == nullptr) return;
        ::BIO_meth_set_write_ex(made, write_socket);
        ::BIO_meth_set_read_ex(made, read_socket);
        ::BIO_meth_set_ctrl(made, control);
        ::BIO_meth_set_destroy(made, destroy);
    }
    method(const method&) = delete;  // it owns the method
    method& operator=(const method&) = delete;
    ~method() { ::BIO_meth_free(made); }

    BIO_METHOD* made;
};

}  // namespace

bio_st* make_socket_bio(int socket) noexcept {
    static const method kept;
    std::unique_ptr<socket_state> state(new (std::nothrow) socket_state{socket, false});
    BIO* const bio = kept.made == nullptr || !state ? nullptr : ::BIO_new(kept.made);
    if (bio == nullptr) return nullptr;
    ::BIO_set_data(bio, state.release());
    ::BIO_set_init(bio, 1);
    return bio;
}

bool is_socket_empty(bio_st* bio) noexcept { return state_of(bio).is_empty; }

}  // namespace sluice::serve
