// SPDX-License-Identifier: Apache-2.0
// short_wait: what a thread does between two looks for what another thread writes within microseconds.
#pragma once

#include <mutex>
#include <thread>

namespace sluice::detail {

// Says to the core that this thread only waits for another one.
inline void pause_core() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// The first looks keep the core, for some 20 µs in all: on a busy machine, a thread that yields its core may have to
// wait milliseconds for it. Then it yields at each look, since the thread that it waits for may need the core.
class short_wait {
public:
    static constexpr int usual_looks = 100;

    // With another number of looks before it yields: each takes some 0.2 µs.
    explicit short_wait(int looks = usual_looks) noexcept : looks_(looks) {}

    void operator()() noexcept {
        if (looks_ == 0) {
            std::this_thread::yield();
            return;
        }
        --looks_;
        for (int i = 0; i < pauses; ++i) pause_core();
    }

    // Whether the next look keeps the core, so that a thread which can sleep instead does.
    bool keeps_core() const noexcept { return looks_ > 0; }

private:
    static constexpr int pauses = 10;

    int looks_;  // before it yields
};

// For a lock that other threads hold for about a microsecond: a thread that slept until it is free, and then waited for
// a processor, would lose more. It looks as long as the wait keeps the core, and sleeps then.
inline std::unique_lock<std::mutex> lock_soon(std::mutex& mutex, short_wait wait = short_wait()) noexcept {
    std::unique_lock lock(mutex, std::try_to_lock);
    for (; !lock.owns_lock() && wait.keeps_core(); static_cast<void>(lock.try_lock())) wait();
    if (!lock.owns_lock()) lock.lock();
    return lock;
}

}  // namespace sluice::detail
