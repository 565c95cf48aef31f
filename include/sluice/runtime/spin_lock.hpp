// A lock for a few instructions. Where it is held for longer (a stream's, while the driver takes a command), it is
// hardly ever contended; who waits for long sleeps in between.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace sluice::detail {

class spin_lock {
public:
    void lock() noexcept {
        for (int tries = 0; locked_.exchange(true, std::memory_order_acquire); ++tries) {
            // The owner may have been descheduled: after a while let it run.
            if (tries >= 512) {
                std::this_thread::sleep_for(std::chrono::microseconds(50));
            } else if (tries >= 64) {
                std::this_thread::yield();
            }
        }
    }
    void unlock() noexcept { locked_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> locked_{false};
};

}  // namespace sluice::detail
