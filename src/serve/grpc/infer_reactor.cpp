// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_reactor.hpp"

#include "serve/grpc/status.hpp"

namespace sluice::serve {

void infer_reactor::done(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept {
    if (why != nullptr && why->kind() == refusal_kind::queue_full) status = status_of(*why, call_.context());
    grpc::ByteBuffer message(&answer, 1);
    call_.finish(status, message);
}

}  // namespace sluice::serve
