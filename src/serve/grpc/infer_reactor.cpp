// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_reactor.hpp"

#include <utility>

#include "serve/grpc/status.hpp"

namespace sluice::serve {

void infer_reactor::done(grpc::Status status, const refusal* why) noexcept {
    if (why != nullptr && why->kind() == refusal_kind::queue_full) status = status_of(*why, context_);
    Finish(std::move(status));
}

}  // namespace sluice::serve
