// SPDX-License-Identifier: Apache-2.0
// unary_call: one call of a method with one message and one answer, from before it comes to its end. The messages are
// bytes. A client that does not take the answer in time loses the call (answer_watch).
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "serve/grpc/call_loop.hpp"

namespace sluice::serve {

// Who answers calls of a method.
class unary_handler : public call_source {
public:
    void ask_one(call_loop& loop) final;
    // Asks gRPC for the next call of the method; `tag` happens when it comes.
    virtual void ask(grpc::ServerContext& context, grpc::ByteBuffer& request,
                     grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>& response, grpc::ServerCompletionQueue& queue,
                     call_event& tag) = 0;
    // A call has come: its finish() is to be called, now or later.
    virtual void take(class unary_call& call) noexcept = 0;
};

// Who answers one call.
class call_owner {
public:
    virtual ~call_owner() = default;

    // The client has gone, or the call's deadline is over. On the loop's thread.
    virtual void cancelled() noexcept = 0;
};

class unary_call {
public:
    // It owns itself, and waits for a call. `handler` and `loop` must outlive it. Throws std::bad_alloc.
    static void ask(unary_handler& handler, call_loop& loop) { new unary_call(handler, loop); }
    unary_call(const unary_call&) = delete;  // gRPC knows its address
    unary_call& operator=(const unary_call&) = delete;

    grpc::ServerContext& context() noexcept { return context_; }
    grpc::ByteBuffer& request() noexcept { return request_; }
    call_loop& loop() noexcept { return loop_; }

    // Needs the thread of take(). Kept until the call goes.
    void set_owner(std::shared_ptr<call_owner> owner) noexcept { owner_ = std::move(owner); }

    // Once, on any thread. After it the call may be gone. `answer` counts where the status is OK.
    void finish(const grpc::Status& status, const grpc::ByteBuffer& answer);

private:
    unary_call(unary_handler& handler, call_loop& loop);
    ~unary_call() = default;

    void come(bool is_there);
    void sent(bool);
    void over(bool);
    void end_one();

    unary_handler& handler_;
    call_loop& loop_;
    const call_presence presence_{loop_};
    grpc::ServerContext context_;
    grpc::ByteBuffer request_;
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> response_;
    std::shared_ptr<call_owner> owner_;
    answer_watch::entry untaken_{context_};  // the answer, from finish() to the end
    int events_left_ = 2;                    // sent() and over()
    member_event<unary_call> come_{*this, &unary_call::come};
    member_event<unary_call> sent_{*this, &unary_call::sent};
    member_event<unary_call> over_{*this, &unary_call::over};
};

}  // namespace sluice::serve
