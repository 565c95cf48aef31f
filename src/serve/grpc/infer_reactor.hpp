// SPDX-License-Identifier: Apache-2.0
// ModelInfer: one call with one request.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>

#include "serve/grpc/infer_task.hpp"

namespace sluice::serve {

// It lives until gRPC and the model have both let go of it.
class infer_reactor final : public grpc::ServerUnaryReactor, public infer_task {
public:
    infer_reactor(std::shared_ptr<grpc_state> state, grpc::CallbackServerContext& context,
                  const inference::ModelInferRequest& request, inference::ModelInferResponse& response)
        : infer_task(std::move(state), context, "ModelInfer", false),
          context_(context),
          request_(request),
          response_(response) {}

    // `self` is this.
    void start(const std::shared_ptr<infer_reactor>& self) {
        self_ = self;
        begin(self);
    }

private:
    const inference::ModelInferRequest& request() const noexcept override { return request_; }
    inference::ModelInferResponse& response() noexcept override { return response_; }
    bool has_left() const noexcept override { return is_cancelled_; }
    void done(grpc::Status status, const refusal* why) noexcept override;
    void OnCancel() override { is_cancelled_ = true; }
    void OnDone() override { self_.reset(); }

    grpc::CallbackServerContext& context_;
    const inference::ModelInferRequest& request_;
    inference::ModelInferResponse& response_;
    std::atomic<bool> is_cancelled_{false};
    std::shared_ptr<infer_reactor> self_;  // until gRPC is done
};

}  // namespace sluice::serve
