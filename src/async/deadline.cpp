#include "sluice/async/deadline.hpp"

#include <algorithm>

namespace sluice::detail {

std::chrono::steady_clock::duration clamped(std::chrono::duration<double> time) noexcept {
    constexpr std::chrono::duration<double> century = std::chrono::years(100);
    return std::chrono::round<std::chrono::steady_clock::duration>(std::clamp(time, time.zero(), century));
}

}  // namespace sluice::detail
