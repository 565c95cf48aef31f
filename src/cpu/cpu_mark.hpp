// SPDX-License-Identifier: Apache-2.0
// A time stamp that a CPU stream takes when it reaches the mark.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "sluice/runtime/interpreter.hpp"

namespace sluice::cpu {

class cpu_mark {
public:
    using clock = std::chrono::steady_clock;

    void stamp() {
        {
            const std::lock_guard lock(mutex_);
            at_ = clock::now();
        }
        wake_.notify_all();
    }
    clock::time_point wait() {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return at_.has_value(); });
        return *at_;
    }
    bool has_passed() noexcept {
        const std::lock_guard lock(mutex_);
        return at_.has_value();
    }

private:
    std::mutex mutex_;
    std::condition_variable wake_;
    std::optional<clock::time_point> at_;
};

// The user's half; the queue holds the other half, so either may be destroyed first.
class cpu_timed_mark final : public timed_mark {
public:
    explicit cpu_timed_mark(std::shared_ptr<cpu_mark> mark) : mark_(std::move(mark)) {}
    void wait() override { mark_->wait(); }
    bool has_passed() const noexcept override { return mark_->has_passed(); }
    std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const override {
        return mark_->wait() - dynamic_cast<const cpu_timed_mark&>(earlier).mark_->wait();
    }

private:
    std::shared_ptr<cpu_mark> mark_;
};

}  // namespace sluice::cpu
