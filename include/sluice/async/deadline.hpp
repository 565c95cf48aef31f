// When a time from now is over.
#pragma once

#include <chrono>

namespace sluice::detail {

// As a clock counts; no less than nothing and no more than a century, so that no sum overflows.
std::chrono::steady_clock::duration clamped(std::chrono::duration<double> time) noexcept;

inline std::chrono::steady_clock::time_point deadline_after(std::chrono::duration<double> at_most) noexcept {
    return std::chrono::steady_clock::now() + clamped(at_most);
}

}  // namespace sluice::detail
