// SPDX-License-Identifier: Apache-2.0
#include "runtime/usable_cores.hpp"

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <cerrno>
#include <cmath>
#include <exception>
#include <memory>

#include <sched.h>

#include "runtime/core_quota.hpp"
#endif

namespace sluice::detail {

#if defined(__linux__)
namespace {

// std::thread::hardware_concurrency() counts all cores of the machine.
std::size_t cores_of_this_thread() noexcept {
    struct free_set {
        void operator()(cpu_set_t* of) const noexcept { CPU_FREE(of); }
    };
    // The system refuses a set that is smaller than its own.
    for (std::size_t room = 1024; room <= std::size_t{1} << 20; room *= 2) {
        const std::unique_ptr<cpu_set_t, free_set> allowed(CPU_ALLOC(room));
        if (!allowed) break;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(room), allowed.get()) == 0)
            return static_cast<std::size_t>(CPU_COUNT_S(CPU_ALLOC_SIZE(room), allowed.get()));
        if (errno != EINVAL) break;
    }
    return std::thread::hardware_concurrency();
}

}  // namespace

std::size_t usable_cores() noexcept {
    const std::size_t cores = std::max<std::size_t>(1, cores_of_this_thread());
    try {
        const double quota = std::ceil(core_quota("/proc/self/cgroup", "/sys/fs/cgroup"));  // at least 1
        return quota < static_cast<double>(cores) ? static_cast<std::size_t>(quota) : cores;
    } catch (const std::exception&) {  // no memory to read the quota
        return cores;
    }
}

#else

std::size_t usable_cores() noexcept { return std::max(1u, std::thread::hardware_concurrency()); }

#endif

}  // namespace sluice::detail
