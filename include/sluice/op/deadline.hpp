// deadline: a point of time, or so long from now. Where time is virtual (the simulator), the latter counts from when
// somebody begins to wait by it; elsewhere from when it was made.
#pragma once

#include <chrono>
#include <optional>

namespace sluice::detail {

// As a clock counts; no less than nothing and no more than a century, so that no sum overflows. Defined in async.
std::chrono::steady_clock::duration clamped(std::chrono::duration<double> time) noexcept;

class deadline {
public:
    using clock = std::chrono::steady_clock;

    explicit deadline(clock::time_point at) noexcept : at_(at) {}
    explicit deadline(std::chrono::duration<double> from_now) noexcept
        : at_(clock::now() + clamped(from_now)), from_now_(clamped(from_now)) {}

    clock::time_point at() const noexcept { return at_; }
    // Empty for a point of time.
    std::optional<clock::duration> from_now() const noexcept { return from_now_; }

private:
    clock::time_point at_;
    std::optional<clock::duration> from_now_;
};

}  // namespace sluice::detail
