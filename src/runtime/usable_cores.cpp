// SPDX-License-Identifier: Apache-2.0
#include "runtime/usable_cores.hpp"

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <cerrno>
#include <memory>

#include <sched.h>
#endif

namespace sluice::detail {

#if defined(__linux__)

// std::thread::hardware_concurrency() counts all cores of the machine.
std::size_t usable_cores() noexcept {
    struct free_set {
        void operator()(cpu_set_t* of) const noexcept { CPU_FREE(of); }
    };
    // The system refuses a set that is smaller than its own.
    for (std::size_t room = 1024; room <= std::size_t{1} << 20; room *= 2) {
        const std::unique_ptr<cpu_set_t, free_set> allowed(CPU_ALLOC(room));
        if (!allowed) break;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(room), allowed.get()) == 0)
            return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT_S(CPU_ALLOC_SIZE(room), allowed.get())));
        if (errno != EINVAL) break;
    }
    return std::max(1u, std::thread::hardware_concurrency());
}

#else

std::size_t usable_cores() noexcept { return std::max(1u, std::thread::hardware_concurrency()); }

#endif

}  // namespace sluice::detail
