// SPDX-License-Identifier: Apache-2.0
// OpenSSL's way to a socket. Its own one writes with write(), which raises SIGPIPE where the peer has gone.
#pragma once

struct bio_st;

namespace sluice::serve {

// Reads and writes this socket, and does not own it. Null: no memory.
bio_st* make_socket_bio(int socket) noexcept;
// Whether its last read has found nothing in the socket.
bool is_socket_empty(bio_st* bio) noexcept;

}  // namespace sluice::serve
