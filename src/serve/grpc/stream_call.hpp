// SPDX-License-Identifier: Apache-2.0
// stream_call: one call with messages in both directions, from before it comes to its end. The messages are bytes. A
// client that does not take an answer in time loses the stream (answer_watch).
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <memory>

#include "serve/grpc/call_loop.hpp"
#include "serve/grpc/unary_call.hpp"

namespace sluice::serve {

using byte_stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// Who answers one stream. All on the loop's thread.
class stream_owner : public call_owner {
public:
    virtual void read_done(bool is_there) noexcept = 0;
    virtual void write_done(bool is_sent) noexcept = 0;
};

// Who answers streams of a method.
class stream_handler : public call_source {
public:
    void ask_one(call_loop& loop) final;
    // Asks gRPC for the next one; `tag` happens when it comes.
    virtual void ask(grpc::ServerContext& context, byte_stream& stream, grpc::ServerCompletionQueue& queue,
                     call_event& tag) = 0;
    // A stream has come: its set_owner() is to be called at once, and its finish() now or later. One without an owner
    // is finished at once.
    virtual void take(class stream_call& call) noexcept = 0;
};

class stream_call {
public:
    // It owns itself, and waits for a call. `handler` and `loop` must outlive it. Throws std::bad_alloc.
    static void ask(stream_handler& handler, call_loop& loop) { new stream_call(handler, loop); }
    stream_call(const stream_call&) = delete;  // gRPC knows its address
    stream_call& operator=(const stream_call&) = delete;

    grpc::ServerContext& context() noexcept { return context_; }
    call_loop& loop() noexcept { return loop_; }

    // Needs the thread of take(). Kept until the call goes.
    void set_owner(std::shared_ptr<stream_owner> owner) noexcept { owner_ = std::move(owner); }

    // On any thread; one read and one write at a time. `to` must stay until read_done(), and `from` until write_done().
    void read(grpc::ByteBuffer& to);
    void write(const grpc::ByteBuffer& from);
    // Once, and nothing is begun after it.
    void finish(const grpc::Status& status);

private:
    stream_call(stream_handler& handler, call_loop& loop);
    ~stream_call() = default;

    void come(bool is_there);
    void has_read(bool is_there);
    void has_written(bool is_sent);
    void sent(bool);
    void over(bool);
    void end_one();

    stream_handler& handler_;
    call_loop& loop_;
    const call_presence presence_{loop_};
    grpc::ServerContext context_;
    byte_stream stream_;
    std::shared_ptr<stream_owner> owner_;
    answer_watch::entry untaken_{context_};  // the answer that is written, or the status
    std::atomic<int> events_left_{2};        // sent(), over(), and what was begun
    member_event<stream_call> come_{*this, &stream_call::come};
    member_event<stream_call> read_{*this, &stream_call::has_read};
    member_event<stream_call> written_{*this, &stream_call::has_written};
    member_event<stream_call> sent_{*this, &stream_call::sent};
    member_event<stream_call> over_{*this, &stream_call::over};
};

}  // namespace sluice::serve
