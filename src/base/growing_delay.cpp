// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/growing_delay.hpp"

#include <algorithm>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::detail {

// Comparisons that NaN fails.
delays::delays(const growing_delay& of) : of_(of), random_(of.seed) {
    const auto zero = std::chrono::duration<double>::zero();
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what, {"growing_delay"});
    };
    require(of.first >= zero && of.most >= zero, "`first` and `most` must be times of at least 0");
    require(of.growth >= 1, "`growth` must be at least 1");
    require(of.jitter >= 0 && of.jitter <= 1, "`jitter` must be from 0 to 1");
}

std::chrono::duration<double> delays::next() {
    const std::chrono::duration<double> longest = std::min(of_.first, of_.most);
    of_.first = std::min(longest * of_.growth, of_.most);
    const double part = static_cast<double>(random_() >> 11) * 0x1p-53;  // [0, 1), the same on each platform
    return longest * (1 - of_.jitter * part);
}

}  // namespace sluice::detail
