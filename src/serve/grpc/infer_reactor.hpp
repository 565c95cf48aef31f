// SPDX-License-Identifier: Apache-2.0
// One infer request over gRPC.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "serve/grpc/infer_message.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/refusal.hpp"
#include "sluice/serve/request_budget.hpp"
#include "sluice/serve/server.hpp"

namespace sluice::serve {

grpc::Status status_of(const refusal& why);
// With the length of the queue in the metadata, where the queue is full.
grpc::Status status_of(const refusal& why, grpc::CallbackServerContext& context);
// The text of a version in a message; empty: the latest. Throws refusal (not_found).
std::optional<std::size_t> version_of(const std::string& text);

// It lives until gRPC and the model have both let go of it.
class infer_reactor final : public grpc::ServerUnaryReactor, public infer_call {
public:
    infer_reactor(std::shared_ptr<request_budget> budget, std::atomic<std::size_t>& in_flight,
                  grpc::CallbackServerContext& context, const inference::ModelInferRequest& request,
                  inference::ModelInferResponse& response);
    infer_reactor(const infer_reactor&) = delete;  // gRPC knows its address
    infer_reactor& operator=(const infer_reactor&) = delete;
    ~infer_reactor() override;

    // Answers or refuses the call now or later. `self` is this.
    void begin(const server& models, std::shared_ptr<infer_reactor> self);

    void answer(std::span<const tensor_view> outputs) noexcept override;
    void refuse(const refusal& why) noexcept override;
    bool is_wanted() const noexcept override;

private:
    void submit(const server& models, const std::shared_ptr<infer_reactor>& self);
    bool is_over() const noexcept;
    void OnCancel() override { is_cancelled_ = true; }
    void OnDone() override;

    const std::shared_ptr<request_budget> budget_;
    std::atomic<std::size_t>& in_flight_;
    grpc::CallbackServerContext& context_;
    const inference::ModelInferRequest& request_;
    inference::ModelInferResponse& response_;
    const std::chrono::system_clock::time_point deadline_;
    std::size_t charged_ = 0;
    infer_message message_;
    std::shared_ptr<served_model> model_;
    std::atomic<bool> is_cancelled_{false};
    std::shared_ptr<infer_reactor> self_;  // until gRPC is done
};

}  // namespace sluice::serve
