// SPDX-License-Identifier: Apache-2.0
// call_loop: a thread with a queue of gRPC's events. All that happens to a call happens on the thread of its loop, so
// no request needs another thread where its batch is short.
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "serve/grpc/answer_watch.hpp"
#include "serve/piece_queue.hpp"
#include "sluice/serve/infer_call.hpp"

namespace sluice::serve {

// What gRPC says in its own time: a call has come, something is sent.
class call_event {
public:
    // `is_done`: as gRPC has it. On the loop's thread.
    virtual void happen(bool is_done) noexcept = 0;

protected:
    call_event() = default;
    call_event(const call_event&) = delete;  // gRPC knows its address
    call_event& operator=(const call_event&) = delete;
    ~call_event() = default;
};

// Calls a member of its owner.
template <typename Owner>
class member_event final : public call_event {
public:
    member_event(Owner& owner, void (Owner::*what)(bool)) noexcept : owner_(owner), what_(what) {}

    void happen(bool is_done) noexcept override { (owner_.*what_)(is_done); }

private:
    Owner& owner_;
    void (Owner::* const what_)(bool);
};

class call_loop;

// Where calls come from: a method.
class call_source {
public:
    virtual ~call_source() = default;

    // Waits on the loop for one more call. Throws std::bad_alloc: then it does not.
    virtual void ask_one(call_loop& loop) = 0;
};

class call_loop final : public lent_thread {
public:
    // `answers` must outlive it. The thread sleeps only where nothing has happened for `spin_time`.
    call_loop(std::unique_ptr<grpc::ServerCompletionQueue> queue, answer_watch& answers,
              std::chrono::microseconds spin_time)
        : queue_(std::move(queue)), answers_(answers), spin_time_(spin_time) {}
    call_loop(const call_loop&) = delete;  // its thread knows its address
    call_loop& operator=(const call_loop&) = delete;
    ~call_loop() override { end(); }

    grpc::ServerCompletionQueue& queue() noexcept { return *queue_; }
    answer_watch& answers() noexcept { return answers_; }

    // When the server has started.
    void start();
    // Blocks until the last call has gone and the last event has happened; where a model does not end, for ever. Needs
    // a server that is shut down.
    void end();

    // Before start(): how many sources there are.
    void reserve_sources(std::size_t count) { missing_.reserve(count); }
    // Waits for one more call; where memory lacks now, later. On the loop's thread, or before it starts.
    void ask(call_source& from) noexcept;

    // Each call, from before it comes to its end: nothing of it may begin on a queue that is shut down. The second one
    // on the loop's thread.
    void call_begins() noexcept { ++calls_; }
    void call_has_gone() noexcept {
        if (--calls_ == 0) calls_.notify_all();
    }

    // On the loop's thread: the model's batch begins when the events that are there now have happened, so that requests
    // which came together are in it together. It waits for no more than some hundred. Throws std::bad_alloc.
    void run_soon(std::shared_ptr<served_model> model) override { soon_.push_back(std::move(model)); }

    // On the loop's thread: for work that would hold up other calls. A turn is what happens between two looks at the
    // models' batches.
    piece_queue& pieces() noexcept { return pieces_; }

private:
    // Calls that are not waited for, because there was no memory. They count as calls, so that the queue stays.
    struct missing_calls {
        call_source* from;
        std::size_t count;
    };

    grpc::CompletionQueue::NextStatus next(void*& tag, bool& is_done);
    void ask_for_missing() noexcept;
    void run();
    void run_models();
    bool has_more() const noexcept { return !soon_.empty() || !pieces_.is_empty(); }

    const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
    answer_watch& answers_;
    const std::chrono::microseconds spin_time_;
    std::vector<std::shared_ptr<served_model>> soon_, running_;  // keep their memory
    piece_queue pieces_;
    std::vector<missing_calls> missing_;  // has room for all sources
    std::atomic<std::size_t> calls_{0};
    std::atomic<bool> is_ending_{false};
    std::thread thread_;
    bool has_ended_ = false;
};

// One call of the loop, from before it comes to its end.
class call_presence {
public:
    explicit call_presence(call_loop& loop) noexcept : loop_(loop) { loop_.call_begins(); }
    call_presence(const call_presence&) = delete;  // one call
    call_presence& operator=(const call_presence&) = delete;
    ~call_presence() { loop_.call_has_gone(); }

private:
    call_loop& loop_;
};

}  // namespace sluice::serve
