// SPDX-License-Identifier: Apache-2.0
// The methods of the service: who may call them, and what they answer. How requests to models are answered is in
// infer_reactor and stream_reactor.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "serve/grpc/call_loop.hpp"
#include "serve/grpc/call_record.hpp"
#include "serve/grpc/grpc_state.hpp"
#include "serve/grpc/raw_service.hpp"
#include "serve/grpc/stream_call.hpp"
#include "serve/grpc/unary_call.hpp"

namespace sluice::serve {

class inference_service {
public:
    explicit inference_service(std::shared_ptr<grpc_state> state);
    inference_service(const inference_service&) = delete;  // gRPC knows its address
    inference_service& operator=(const inference_service&) = delete;
    ~inference_service();

    grpc::Service& service() noexcept { return raw_; }

    // Waits for calls there. When the server has started, once for each loop, before the loop starts.
    void ask_for_calls(call_loop& loop);

    // After server::begin_drain(): streams end when what they have taken is answered.
    void end_streams();
    bool has_streams() const;

private:
    using call = unary_call;
    class method;
    class infer_stream;
    enum class needs : unsigned char { nothing, any_token, infer, stream, observe, load };

    void server_live(call& from) noexcept;
    void server_ready(call& from) noexcept;
    void model_ready(call& from) noexcept;
    void server_metadata(call& from) noexcept;
    void model_metadata(call& from) noexcept;
    void model_infer(call& from) noexcept;
    void model_stream_infer(stream_call& from) noexcept;
    void model_configuration(call& from) noexcept;
    void model_statistics(call& from) noexcept;
    void repository_index(call& from) noexcept;
    void repository_model_load(call& from) noexcept;
    void repository_model_unload(call& from) noexcept;
    void system_memory_status(call& from) noexcept;
    void system_memory_register(call& from) noexcept;
    void system_memory_unregister(call& from) noexcept;
    void cuda_memory_status(call& from) noexcept;
    void cuda_memory_register(call& from) noexcept;
    void cuda_memory_unregister(call& from) noexcept;

    // Throws for a host that is not served, for a token that is not right or not for this, and for one request too
    // many. Gives the client that has the token; null: tokens are not needed.
    access_list::client* admit(const grpc::ServerContext& context, needs what) const;
    const std::shared_ptr<request_budget>& budget_of(const access_list::client* from) const noexcept;
    static grpc::Status status_of_failure(grpc::ServerContext& context) noexcept;  // of the exception that is handled
    void refuse(call& from, call_record& record) noexcept;                         // with the exception that is handled
    template <typename Request>
    struct question;
    template <typename Request, typename Response, typename Fill>
    void answer_of_model(call& from, const char* name, const Fill& fill) noexcept;
    template <typename Request, typename Response, typename Fill>
    void answer_when_loaded(call& from, const std::shared_ptr<question<Request>>& its, const Fill& fill) noexcept;
    template <typename Request, typename Response, typename Fill>
    void answer(call& from, const char* name, needs who, const Fill& fill) noexcept;
    template <typename Request, typename Response>
    void answer_regions(call& from, const char* name, needs what) noexcept;
    template <typename Request>
    void change(call& from, const char* name, bool loads) noexcept;

    const std::shared_ptr<grpc_state> state_;
    raw_service raw_;
    std::vector<std::unique_ptr<method>> methods_;
    std::unique_ptr<infer_stream> stream_;
    std::atomic<std::size_t> changes_{0};  // loads and unloads on threads of their own
};

}  // namespace sluice::serve
