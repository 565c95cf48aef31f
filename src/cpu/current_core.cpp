// SPDX-License-Identifier: Apache-2.0
#include "cpu/current_core.hpp"

#if defined(__linux__)
#include <sched.h>
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

bool core_change::is_due() const noexcept { return std::chrono::steady_clock::now() - last_ >= between_changes; }

void core_change::leave([[maybe_unused]] int core) noexcept {
    last_ = std::chrono::steady_clock::now();
#if defined(__linux__)
    // A machine with more cores than the set has room for gives an error, and the thread stays.
    cpu_set_t allowed;
    if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return;
    sched_setaffinity(0, sizeof(allowed), &allowed);
#endif
}

}  // namespace sluice::cpu
