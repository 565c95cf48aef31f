// SPDX-License-Identifier: Apache-2.0
#include "cpu/current_core.hpp"

#include <utility>

#if defined(__linux__)
#include <sched.h>
#include <time.h>
#include <unistd.h>
#endif

namespace sluice::cpu {
namespace {

constexpr std::chrono::milliseconds between_changes{1};

}  // namespace

int current_core() noexcept {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

bool core_change::is_due(clock::time_point now) const noexcept { return now - last_ >= between_changes; }

std::uint64_t current_tick() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc() >> 21;  // counts 2 to 4 in a nanosecond
#elif defined(__linux__)
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
#else
    return static_cast<std::uint64_t>(core_change::clock::now().time_since_epoch() / between_changes);
#endif
}

bool core_change::has_ticked() noexcept {
    const std::uint64_t tick = current_tick();
    return std::exchange(tick_, tick) != tick;
}

#if defined(__linux__)

namespace {

// The cores on which a thread may run, and those without one of them. False if there are no others, or where a machine
// has more cores than the sets have room for. Thread 0 is the calling one.
bool others_of(int thread, int core, cpu_set_t& allowed, cpu_set_t& others) noexcept {
    if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(thread, sizeof(allowed), &allowed) != 0) return false;
    others = allowed;
    CPU_CLR(core, &others);
    return CPU_COUNT(&others) != 0;
}

}  // namespace

void core_change::leave(int core, clock::time_point now) noexcept {
    last_ = now;
    cpu_set_t allowed, others;
    if (!others_of(0, core, allowed, others) || sched_setaffinity(0, sizeof(others), &others) != 0) return;
    sched_setaffinity(0, sizeof(allowed), &allowed);
}

void woken_thread::set_thread() noexcept { thread_ = gettid(); }

void woken_thread::keep_off(int core) noexcept {
    is_kept_off_ = others_of(thread_, core, allowed_, others_) && CPU_ISSET(core, &allowed_) &&
                   sched_setaffinity(thread_, sizeof(others_), &others_) == 0;
}

void woken_thread::allow_all() noexcept {
    if (!is_kept_off_) return;
    is_kept_off_ = false;
    // What the user has set meanwhile stays.
    cpu_set_t now;
    if (sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &others_))
        sched_setaffinity(0, sizeof(allowed_), &allowed_);
}

#else

void core_change::leave(int, clock::time_point now) noexcept { last_ = now; }
void woken_thread::set_thread() noexcept {}
void woken_thread::keep_off(int) noexcept {}
void woken_thread::allow_all() noexcept {}

#endif

}  // namespace sluice::cpu
