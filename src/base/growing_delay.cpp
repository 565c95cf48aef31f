// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/growing_delay.hpp"

#include <algorithm>
#include <limits>

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

// In [0, 1), the same on each platform: splitmix64, Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
double next_part(std::uint64_t& state) noexcept {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

// Comparisons that NaN fails.
delays::delays(const growing_delay& of) : of_(of), state_(of.seed) {
    const auto zero = std::chrono::duration<double>::zero();
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what, {"growing_delay"});
    };
    require(of.first >= zero && of.most >= zero, "`first` and `most` must be times of at least 0");
    require(of.growth >= 1 && of.growth <= std::numeric_limits<double>::max(),
            "`growth` must be a finite number of at least 1");
    require(of.jitter >= 0 && of.jitter <= 1, "`jitter` must be from 0 to 1");
}

std::chrono::duration<double> delays::next() {
    const std::chrono::duration<double> longest = std::min(of_.first, of_.most);
    of_.first = std::min(longest * of_.growth, of_.most);
    return longest * (1 - of_.jitter * next_part(state_));
}

}  // namespace sluice::detail
