// SPDX-License-Identifier: Apache-2.0
// ModelStreamInfer: requests that come one after the other in one call, and their answers in the same order. A request
// that is refused has an answer that says why; the stream continues. Without memory for the next request or for such an
// answer it ends (RESOURCE_EXHAUSTED).
//
// Up to most_open requests of a stream are in the server; then it reads no more until one is answered.
#pragma once

#include <grpcpp/support/status.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "serve/grpc/infer_task.hpp"
#include "serve/grpc/stream_call.hpp"

namespace sluice::serve {

class stream_task;

class stream_reactor final : public stream_owner, public std::enable_shared_from_this<stream_reactor> {
public:
    static constexpr std::size_t most_open = 64;

    stream_reactor(std::shared_ptr<grpc_state> state, stream_call& call, access_list::client* client);
    stream_reactor(const stream_reactor&) = delete;  // its tasks know its address
    stream_reactor& operator=(const stream_reactor&) = delete;
    ~stream_reactor() override;

    // Each is called once, and only one of them. The call has this as its owner.
    void start() noexcept;
    void refuse(const grpc::Status& why) noexcept;
    // Takes no more requests; the stream ends (UNAVAILABLE) when those that it has are answered. On any thread.
    void end_soon();

    // For its tasks, on any thread.
    // Without `is_written` there is no answer, for want of memory.
    void answered(stream_task& task, bool is_written) noexcept;
    bool is_cancelled() const noexcept { return is_cancelled_; }
    // Begins what can be done next.
    void go_on() noexcept;

    void read_done(bool is_there) noexcept override;
    void write_done(bool is_sent) noexcept override;
    void cancelled() noexcept override { is_cancelled_ = true; }

private:
    void read() noexcept;
    void add_open(std::shared_ptr<stream_task> task) noexcept;
    std::shared_ptr<stream_task> remove_open() noexcept;

    const std::shared_ptr<grpc_state> state_;
    stream_call& call_;  // until it is finished
    access_list::client* const client_;
    std::atomic<bool> is_cancelled_{false};
    std::shared_ptr<stream_task> incoming_;  // what is read into
    std::mutex mutex_;                       // of what follows
    // The requests in their order, a list: to add one takes no memory.
    std::shared_ptr<stream_task> first_open_;
    stream_task* last_open_ = nullptr;
    std::size_t open_ = 0;
    bool is_reading_ = false;
    bool is_writing_ = false;
    bool has_all_ = false;  // the client sends no more
    bool ends_ = false;     // the server does
    bool lacks_memory_ = false;
    bool is_finished_ = false;
    int beginning_ = 0;  // threads that begin to read or to write
};

}  // namespace sluice::serve
