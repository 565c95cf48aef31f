// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/answer_watch.hpp"

#include <algorithm>

namespace sluice::serve {
namespace {

// How often the watch looks. An answer may have longer than its time by this.
std::chrono::milliseconds time_to_next_look(std::chrono::milliseconds at_most) {
    return std::clamp(at_most / 8, std::chrono::milliseconds(5), std::chrono::milliseconds(1000));
}

}  // namespace

answer_watch::answer_watch(std::chrono::milliseconds at_most)
    : at_most_(at_most), thread_([this](const std::stop_token& end) { look(end); }) {}

void answer_watch::stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
}

void answer_watch::begin(entry& its) noexcept {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (its.is_in_) return;
    its.is_in_ = true;
    its.since_ = now;
    its.before_ = newest_;
    its.after_ = nullptr;
    (newest_ != nullptr ? newest_->after_ : oldest_) = &its;
    newest_ = &its;
}

void answer_watch::end(entry& its) noexcept {
    const std::lock_guard lock(mutex_);
    if (its.is_in_) remove(its);
}

// Called with the lock.
void answer_watch::remove(entry& its) noexcept {
    (its.before_ != nullptr ? its.before_->after_ : oldest_) = its.after_;
    (its.after_ != nullptr ? its.after_->before_ : newest_) = its.before_;
    its.is_in_ = false;
}

// The lock is held while a call is cancelled: its end() waits, so the call is there.
void answer_watch::look(const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    while (!wakes_.wait_for(lock, end, time_to_next_look(at_most_), [&end] { return end.stop_requested(); })) {
        const auto begun_before = std::chrono::steady_clock::now() - at_most_;
        while (oldest_ != nullptr && oldest_->since_ <= begun_before) {
            entry& late = *oldest_;
            remove(late);
            late.call_.TryCancel();
            ++ended_;  // after the call has been ended
        }
    }
}

}  // namespace sluice::serve
