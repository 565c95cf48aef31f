// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/deadline.hpp"

#include <algorithm>
#include <cmath>

#include "sluice/base/error.hpp"

namespace sluice::detail {

std::chrono::steady_clock::duration clamped(std::chrono::duration<double> time) {
    if (std::isnan(time.count()))
        throw error(errc::invalid_argument, "a time to wait is not a number (NaN); for no limit, give an infinite one");
    constexpr std::chrono::duration<double> century = std::chrono::years(100);
    return std::chrono::round<std::chrono::steady_clock::duration>(std::clamp(time, time.zero(), century));
}

}  // namespace sluice::detail
