// SPDX-License-Identifier: Apache-2.0
// Messages that their client has compressed. gRPC itself would unpack a message as a whole, and compare its length with
// the limit afterwards: 64 MiB could become 64 GiB. So gRPC gives messages as they came.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>

#include "serve/unpack_body.hpp"

namespace sluice::serve {

// The server gives messages as they came, and accepts those that coding_of() knows.
void accept_compressed(grpc::ServerBuilder& server);

// How a message that such a server gives is compressed. A short one may not be, whatever its call says.
content_coding coding_of(const grpc::ByteBuffer& message);

}  // namespace sluice::serve
