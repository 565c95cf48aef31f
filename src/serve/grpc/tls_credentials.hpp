// SPDX-License-Identifier: Apache-2.0
// tls_credentials: a gRPC server's side of TLS, with the certificates that a certificate_watch has read. Each handshake
// gets the newest ones.
//
// Thread safety: gRPC calls from any thread.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "serve/tls/certificate_watch.hpp"

namespace sluice::serve {

// What this gives must outlive the gRPC server. `asks_clients`: a client must show a certificate. Throws error
// (unsupported) for versions of gRPC in which certificates cannot be replaced while the server runs.
std::shared_ptr<grpc::ServerCredentials> tls_credentials(std::shared_ptr<certificate_watch> watch, bool asks_clients);

}  // namespace sluice::serve
