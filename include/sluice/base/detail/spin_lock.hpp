// SPDX-License-Identifier: Apache-2.0
// A lock that is held for a few instructions. Where it is held for longer (a stream's lock, while the driver takes a
// command), it is hardly ever contended; a thread that waits for long sleeps between its attempts.
#pragma once

#include <atomic>

namespace sluice::detail {

class spin_lock {
public:
    void lock() noexcept {
        for (int tries = 0; locked_.exchange(true, std::memory_order_acquire); ++tries) {
            if (tries >= 64) wait_for_owner(tries);
        }
    }
    void unlock() noexcept { locked_.store(false, std::memory_order_release); }

private:
    static void wait_for_owner(int tries) noexcept;

    std::atomic<bool> locked_{false};
};

// Holds the lock while it lives. A std::lock_guard would bring <mutex>, with <chrono>, to every file of kernels.
class [[nodiscard]] spin_guard {
public:
    explicit spin_guard(spin_lock& guarded) noexcept : lock_(guarded) { lock_.lock(); }
    spin_guard(const spin_guard&) = delete;  // it unlocks once
    spin_guard& operator=(const spin_guard&) = delete;
    ~spin_guard() { lock_.unlock(); }

private:
    spin_lock& lock_;
};

}  // namespace sluice::detail
