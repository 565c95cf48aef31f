// SPDX-License-Identifier: Apache-2.0
// runtime_log: calls the program's log function, if there is one. Every member may be called on any thread, also while
// locks are held; the function must not call Sluice.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "sluice/runtime/log.hpp"

namespace sluice::detail {

class runtime_log {
public:
    runtime_log() = default;
    runtime_log(const runtime_log&) = delete;  // devices point to it
    runtime_log& operator=(const runtime_log&) = delete;

    void begin(log_function function);
    // Waits for a call in progress; no call begins after this.
    void end() noexcept;

    // `facts` without the message, which make_message() returns; it is called only if there is a function. Exceptions
    // of both are dropped.
    template <typename Make>
    void write(log_entry facts, Make&& make_message) noexcept {
        if (!is_on_.load(std::memory_order_acquire)) return;
        try {
            give(facts, make_message());
        } catch (...) {  // NOLINT(bugprone-empty-catch): a logger that fails must not break what it hears of
        }
    }

private:
    void give(log_entry& entry, const std::string& message);

    std::atomic<bool> is_on_{false};
    std::mutex mutex_;  // one call at a time
    log_function function_;
};

// What a failure says.
std::string message_of(const std::exception_ptr& failure);

}  // namespace sluice::detail
