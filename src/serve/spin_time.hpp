// SPDX-License-Identifier: Apache-2.0
// The time that a thread of a front end looks for events before it sleeps.
#pragma once

#include <chrono>
#include <string>

#include "sluice/base/error.hpp"

namespace sluice::serve {

constexpr std::chrono::microseconds longest_spin_time = std::chrono::seconds(1);

// Throws error(invalid_argument) for a time that a front end does not accept.
inline void require_spin_time(std::chrono::microseconds time) {
    if (time >= time.zero() && time <= longest_spin_time) return;
    throw error(errc::invalid_argument, "a front end cannot spin for " + std::to_string(time.count()) +
                                            " us; accepted is 0 to " + std::to_string(longest_spin_time.count()));
}

}  // namespace sluice::serve
