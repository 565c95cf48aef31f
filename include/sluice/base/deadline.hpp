// SPDX-License-Identifier: Apache-2.0
// deadline: a point in time, or a duration from now. Where time is virtual (the simulator), the duration counts from
// the moment at which a thread or coroutine begins to wait; elsewhere from the construction of the deadline.
#pragma once

#include <chrono>
#include <optional>

namespace sluice::detail {

// Converts to the clock's duration, clamped to [0, 100 years] so that `now + d` cannot overflow. Throws
// errc::invalid_argument for a time that is not a number.
std::chrono::steady_clock::duration clamped(std::chrono::duration<double> time);

inline std::chrono::steady_clock::time_point deadline_after(std::chrono::duration<double> at_most) {
    return std::chrono::steady_clock::now() + clamped(at_most);
}

class deadline {
public:
    using clock = std::chrono::steady_clock;

    explicit deadline(clock::time_point at) noexcept : at_(at) {}
    explicit deadline(std::chrono::duration<double> from_now)
        : at_(deadline_after(from_now)), from_now_(clamped(from_now)) {}

    clock::time_point at() const noexcept { return at_; }
    // Empty for a point in time.
    std::optional<clock::duration> from_now() const noexcept { return from_now_; }

private:
    clock::time_point at_;
    std::optional<clock::duration> from_now_;
};

}  // namespace sluice::detail
