// SPDX-License-Identifier: Apache-2.0
// What a call leaves behind when it is answered: the counter of its status, a line of the log, spans.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <string_view>

#include "serve/grpc/grpc_state.hpp"
#include "serve/grpc/infer_message.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/trace_context.hpp"

namespace sluice::serve {

class call_record {
public:
    // `method`: "ModelInfer". Reads the metadata "traceparent"; a value that is wrong is ignored, as W3C Trace Context
    // asks, and counted. Without memory for the metadata there is none.
    call_record(grpc_state& state, const grpc::ServerContext& context, const char* method) noexcept;

    // `progress`: of a request to a model; empty: no spans are recorded. `model`: the one that was found, or null.
    void end(const grpc::Status& status, std::string_view model_name, const served_model* model,
             const infer_call::progress* progress) noexcept;
    // For a request to a model, before it is answered.
    void add_to_timeline(const grpc::Status& status, const infer_head& request, const served_model* model,
                         const infer_call::progress& progress, bool is_streamed) const noexcept;

private:
    using clock = infer_call::clock;

    grpc_state& state_;
    const char* method_;
    bool is_noted_;
    std::optional<trace_context> caller_;
    clock::time_point begin_{};
};

}  // namespace sluice::serve
