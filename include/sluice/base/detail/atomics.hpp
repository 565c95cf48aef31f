// SPDX-License-Identifier: Apache-2.0
// The atomics that a lock-free class uses: the standard's, or those of a simulator that explores its interleavings
// (sluice/sim/atomic.hpp).
#pragma once

#include <atomic>

namespace sluice {

struct std_atomics {
    template <typename T>
    using atomic = std::atomic<T>;
};

}  // namespace sluice
