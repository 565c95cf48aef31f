// Which atomics a lock-free class is made of: the standard's, or those of a simulator that explores its
// interleavings (sluice/sim/atomic.hpp).
#pragma once

#include <atomic>

namespace sluice {

struct std_atomics {
    template <typename T>
    using atomic = std::atomic<T>;
};

}  // namespace sluice
