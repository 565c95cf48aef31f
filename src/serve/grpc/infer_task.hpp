// SPDX-License-Identifier: Apache-2.0
// One infer request over gRPC, from its message to its answer: what a single call and a request of a stream have in
// common.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/grpc/call_loop.hpp"
#include "serve/grpc/call_record.hpp"
#include "serve/grpc/grpc_state.hpp"
#include "serve/grpc/infer_message.hpp"
#include "serve/piece_queue.hpp"
#include "serve/unpack_body.hpp"
#include "sluice/serve/infer_call.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {

class infer_task : public infer_call {
public:
    infer_task(const infer_task&) = delete;  // the model has it
    infer_task& operator=(const infer_task&) = delete;
    ~infer_task() override;

    // Answers or refuses the request now or later. `self` is this. `message` is empty when it returns. `thread` is this
    // thread; it unpacks a message that is compressed, and computes the batch where it is short.
    void begin(const std::shared_ptr<infer_task>& self, grpc::ByteBuffer& message, call_loop& thread) noexcept;
    // It is in a queue, or refused: not where its message is still being unpacked, or its model loaded. On any thread.
    bool has_begun() const noexcept { return has_begun_; }

    void make_answer(std::span<const tensor_view> outputs) final;
    bool answer(std::span<const tensor_view> outputs) noexcept final;
    void refuse(const refusal& why) noexcept final;
    bool is_wanted() const noexcept final { return !has_left() && !is_over(); }

protected:
    // `client`: who has the call's token; null: tokens are not needed.
    infer_task(std::shared_ptr<grpc_state> state, const grpc::ServerContext& context, access_list::client* client,
               const char* method, bool is_streamed);

    virtual bool has_left() const noexcept = 0;  // the client
    // `answer` is the message for the client, or `why` says why there is none. Called once, on any thread.
    virtual void done(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept = 0;
    // has_begun() is true now, and was not when begin() returned. On the thread of begin().
    virtual void begins_late() noexcept {}

    std::string_view id() const noexcept { return head_.id; }  // valid as long as this
    grpc_state& state() const noexcept { return *state_; }

private:
    std::span<const std::byte> message() const noexcept;
    void require_token() const;
    void charge(std::size_t bytes);
    void give_back(std::size_t bytes) noexcept;
    void read_head(grpc::ByteBuffer& message);
    bool unpack_in_pieces(const std::shared_ptr<infer_task>& self, content_coding coding, call_loop& thread);
    piece_queue::done unpack(const std::shared_ptr<infer_task>& self, call_loop& thread) noexcept;
    void end_unpacking() noexcept;
    void require_no_drain() const;
    bool submit(const std::shared_ptr<infer_task>& self, call_loop& thread);
    void go_on(const std::shared_ptr<infer_task>& self, call_loop& thread) noexcept;
    void end(grpc::Status status, grpc::Slice answer, const refusal* why) noexcept;
    bool is_over() const noexcept;

    const std::shared_ptr<grpc_state> state_;  // the model may let go of the task after the front end has ended
    const grpc::ServerContext& context_;
    access_list::client* const client_;
    const std::shared_ptr<request_budget> budget_;
    const char* const method_;
    const bool is_streamed_;
    std::optional<call_record> record_;  // from begin() on
    const std::chrono::system_clock::time_point deadline_;
    std::size_t charged_ = 0;
    grpc::Slice bytes_;                      // of the message
    std::string unpacked_;                   // of a message that was compressed, in the place of `bytes_`
    std::optional<body_unpacker> unpacker_;  // of `bytes_`
    std::atomic<bool> has_begun_{false};
    bool waits_ = false;  // for its model; on the thread of begin()
    infer_head head_;
    infer_message request_;
    std::optional<grpc::Slice> made_;  // the answer
    std::shared_ptr<served_model> model_;
};

}  // namespace sluice::serve
