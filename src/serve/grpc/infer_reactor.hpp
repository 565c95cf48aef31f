// SPDX-License-Identifier: Apache-2.0
// ModelInfer: one call with one request.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "serve/grpc/infer_task.hpp"
#include "serve/grpc/unary_call.hpp"

namespace sluice::serve {

// It lives until gRPC and the model have both let go of it.
class infer_reactor final : public infer_task, public call_owner {
public:
    infer_reactor(std::shared_ptr<grpc_state> state, unary_call& call, access_list::client* client)
        : infer_task(std::move(state), call.context(), client, "ModelInfer", false), call_(call) {}

    void cancelled() noexcept override { is_cancelled_ = true; }

private:
    bool has_left() const noexcept override { return is_cancelled_; }
    void done(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept override;

    unary_call& call_;  // until it is finished
    std::atomic<bool> is_cancelled_{false};
};

}  // namespace sluice::serve
