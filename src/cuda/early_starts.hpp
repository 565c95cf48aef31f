// SPDX-License-Identifier: Apache-2.0
// Whether kernels that a library call enqueues may start before the kernel before them has ended (programmatic
// dependent launch). Where a graph records the call, its maker says so on the calling thread; elsewhere they may not.
#pragma once

#include <utility>

namespace sluice {
class device;
}

namespace sluice::cuda {

// Whether a kernel can start before its predecessor has ended.
bool can_start_early(const device& on) noexcept;

// A scope on this thread. Kernels that start early call dependency_wait before they touch memory.
class early_starts {
public:
    explicit early_starts(bool are_possible) noexcept : before_(std::exchange(are_possible_, are_possible)) {}
    early_starts(const early_starts&) = delete;  // a scope
    early_starts& operator=(const early_starts&) = delete;
    ~early_starts() { are_possible_ = before_; }

    static bool are_possible() noexcept { return are_possible_; }

private:
    static inline thread_local bool are_possible_ = false;
    const bool before_;
};

}  // namespace sluice::cuda
