// When a time from now is over.
#pragma once

#include <chrono>

namespace sluice::detail {

// More than a century is as long as that, so that no sum overflows; no time, or less, is over already.
std::chrono::steady_clock::time_point deadline_after(std::chrono::duration<double> at_most) noexcept;

}  // namespace sluice::detail
