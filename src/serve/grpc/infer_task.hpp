// SPDX-License-Identifier: Apache-2.0
// One infer request over gRPC, from its message to its answer: what a single call and a request of a stream have in
// common.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "serve/grpc/call_record.hpp"
#include "serve/grpc/grpc_state.hpp"
#include "serve/grpc/infer_message.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

class infer_task : public infer_call {
public:
    infer_task(const infer_task&) = delete;  // the model has it
    infer_task& operator=(const infer_task&) = delete;
    ~infer_task() override;

    // Answers or refuses the request now or later. `self` is this.
    void begin(const std::shared_ptr<infer_task>& self);

    void answer(std::span<const tensor_view> outputs) noexcept final;
    void refuse(const refusal& why) noexcept final;
    bool is_wanted() const noexcept final { return !has_left() && !is_over(); }

protected:
    infer_task(std::shared_ptr<grpc_state> state, const grpc::CallbackServerContext& context, const char* method,
               bool is_streamed);

    virtual const inference::ModelInferRequest& request() const noexcept = 0;
    virtual inference::ModelInferResponse& response() noexcept = 0;
    virtual bool has_left() const noexcept = 0;  // the client
    // The response is written, or `why` says why not. Called once, on any thread.
    virtual void done(grpc::Status status, const refusal* why) noexcept = 0;

    grpc_state& state() const noexcept { return *state_; }

private:
    void submit(const std::shared_ptr<infer_task>& self);
    void end(grpc::Status status, const refusal* why) noexcept;
    bool is_over() const noexcept;

    const std::shared_ptr<grpc_state> state_;  // the model may let go of the task after the front end has ended
    const grpc::CallbackServerContext& context_;
    const char* const method_;
    const bool is_streamed_;
    std::optional<call_record> record_;  // from begin() on
    const std::chrono::system_clock::time_point deadline_;
    std::size_t charged_ = 0;
    infer_message message_;
    std::shared_ptr<served_model> model_;
};

}  // namespace sluice::serve
