// SPDX-License-Identifier: Apache-2.0
// timed_wait: blocks a thread until a submission is complete or a deadline has passed. It can be used many times. The
// first wait creates a completion notice; later waits use the same one, so that a loop of short waits costs no memory.
// A wait with a deadline in the past only polls and creates no notice.
//
// Thread safety: several threads may wait at the same time. It must not be dropped while a thread waits. Dropping it
// does not block.
#pragma once

#include <atomic>
#include <utility>

#include "sluice/base/deadline.hpp"
#include "sluice/runtime/detail/submission.hpp"

namespace sluice::detail {

class timed_wait {
public:
    timed_wait() = default;
    timed_wait(timed_wait&& other) noexcept : told_(other.told_.exchange(nullptr)) {}
    timed_wait& operator=(timed_wait other) noexcept {
        other.told_.store(told_.exchange(other.told_.load()));
        return *this;
    }
    ~timed_wait();

    // Returns whether the submission is complete or its device has faulted. All calls must name the same submission.
    bool until(const submission_ref& submitted, const deadline& latest) const;

private:
    struct told;
    static void release(told* one, int owners) noexcept;
    told& told_of(const submission_ref& submitted) const;

    mutable std::atomic<told*> told_{nullptr};
};

}  // namespace sluice::detail
