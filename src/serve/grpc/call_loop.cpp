// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/call_loop.hpp"

#include <grpc/support/time.h>

#include <chrono>
#include <exception>
#include <utility>

#include "sluice/serve/served_model.hpp"

namespace sluice::serve {
namespace {

// Then a model does not wait for more events, which may never end.
constexpr int most_events = 256;
// Between attempts to wait for calls that memory lacked for.
constexpr int lack_milliseconds = 50;

}  // namespace

void call_loop::start() {
    thread_ = std::thread([this] { run(); });
}

// A server that is shut down waits for its connections, and not for what is left to do for their calls: to finish one
// on a queue that is shut down would end the process. The queue must be empty before it goes, also where the loop was
// never started: then no call has come.
void call_loop::end() {
    if (std::exchange(has_ended_, true)) return;
    is_ending_ = true;
    if (thread_.joinable())
        for (std::size_t left = calls_; left != 0; left = calls_) calls_.wait(left);
    queue_->Shutdown();
    if (thread_.joinable())
        thread_.join();
    else
        run();
}

void call_loop::ask(call_source& from) noexcept {
    try {
        from.ask_one(*this);
    } catch (const std::exception&) {
        call_begins();
        for (missing_calls& each : missing_) {
            if (each.from != &from) continue;
            ++each.count;
            return;
        }
        missing_.push_back({&from, 1});  // there is room
    }
}

void call_loop::ask_for_missing() noexcept {
    while (!missing_.empty()) {
        missing_calls& last = missing_.back();
        try {
            if (!is_ending_) last.from->ask_one(*this);
        } catch (const std::exception&) {
            return;
        }
        call_has_gone();
        if (--last.count == 0) missing_.pop_back();
    }
}

// Waits for an event, unless models or pieces wait for this thread.
grpc::CompletionQueue::NextStatus call_loop::next(void*& tag, bool& is_done) {
    using clock = std::chrono::steady_clock;
    const auto look = [&] { return queue_->AsyncNext(&tag, &is_done, ::gpr_inf_past(GPR_CLOCK_MONOTONIC)); };
    if (has_more()) return look();
    if (spin_time_.count() != 0) {
        const auto sleeps_at = clock::now() + spin_time_;
        do {
            const auto found = look();
            if (found != grpc::CompletionQueue::TIMEOUT) return found;
        } while (clock::now() < sleeps_at);
    }
    if (missing_.empty()) return queue_->AsyncNext(&tag, &is_done, ::gpr_inf_future(GPR_CLOCK_MONOTONIC));
    return queue_->AsyncNext(
        &tag, &is_done,
        ::gpr_time_add(::gpr_now(GPR_CLOCK_MONOTONIC), ::gpr_time_from_millis(lack_milliseconds, GPR_TIMESPAN)));
}

void call_loop::run() {
    using status = grpc::CompletionQueue::NextStatus;
    void* tag = nullptr;
    bool is_done = false;
    for (int events = 0;;) {
        const bool waits = !has_more();
        const status found = next(tag, is_done);
        if (found == status::GOT_EVENT) {
            static_cast<call_event*>(tag)->happen(is_done);
            events = waits ? 0 : events + 1;
            if (events < most_events && !pieces_.is_over()) continue;
        }
        events = 0;
        run_models();
        pieces_.run_some();
        ask_for_missing();
        if (found == status::SHUTDOWN) return;
    }
}

void call_loop::run_models() {
    running_.swap(soon_);
    for (const auto& each : running_) each->run_waiting();
    running_.clear();
}

}  // namespace sluice::serve
