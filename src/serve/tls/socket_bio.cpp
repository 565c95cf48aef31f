// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/socket_bio.hpp"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

namespace sluice::serve {
namespace {

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio))); }

bool is_for_later(int failure) { return failure == EAGAIN || failure == EWOULDBLOCK || failure == EINTR; }

int write_socket(BIO* bio, const char* from, std::size_t size, std::size_t* written) {
    BIO_clear_retry_flags(bio);
    const ssize_t sent = ::send(socket_of(bio), from, size, MSG_NOSIGNAL);
    *written = sent > 0 ? static_cast<std::size_t>(sent) : 0;
    if (sent > 0) return 1;
    if (sent < 0 && is_for_later(errno)) BIO_set_retry_write(bio);
    return 0;
}

int read_socket(BIO* bio, char* into, std::size_t room, std::size_t* read) {
    BIO_clear_retry_flags(bio);
    const ssize_t got = ::recv(socket_of(bio), into, room, 0);
    *read = got > 0 ? static_cast<std::size_t>(got) : 0;
    if (got > 0) return 1;
    if (got < 0 && is_for_later(errno)) BIO_set_retry_read(bio);
    if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return 0;
}

long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

struct method {
    method() noexcept : made(::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE")) {
        if (made == nullptr) return;
        ::BIO_meth_set_write_ex(made, write_socket);
        ::BIO_meth_set_read_ex(made, read_socket);
        ::BIO_meth_set_ctrl(made, control);
    }
    method(const method&) = delete;  // it owns the method
    method& operator=(const method&) = delete;
    ~method() { ::BIO_meth_free(made); }

    BIO_METHOD* made;
};

}  // namespace

bio_st* make_socket_bio(int socket) noexcept {
    static const method kept;
    BIO* const bio = kept.made == nullptr ? nullptr : ::BIO_new(kept.made);
    if (bio == nullptr) return nullptr;
    ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
    ::BIO_set_init(bio, 1);
    return bio;
}

}  // namespace sluice::serve
