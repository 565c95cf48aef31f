// SPDX-License-Identifier: Apache-2.0
// short_wait: what a thread does between two looks for what another thread writes within microseconds.
#pragma once

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
    void operator()() noexcept {
        if (looks_ == looks_before_yield) {
            std::this_thread::yield();
            return;
        }
        ++looks_;
        for (int i = 0; i < pauses; ++i) pause_core();
    }

private:
    static constexpr int looks_before_yield = 100, pauses = 10;

    int looks_ = 0;
};

}  // namespace sluice::detail
