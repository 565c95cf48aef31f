#include "sluice/async/deadline.hpp"

#include <algorithm>

namespace sluice::detail {

std::chrono::steady_clock::time_point deadline_after(std::chrono::duration<double> at_most) noexcept {
    using clock = std::chrono::steady_clock;
    constexpr std::chrono::duration<double> century = std::chrono::years(100);
    return clock::now() + std::chrono::round<clock::duration>(std::clamp(at_most, at_most.zero(), century));
}

}  // namespace sluice::detail
