// SPDX-License-Identifier: Apache-2.0
#include "serve/short_turns.hpp"

#include <cstdint>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice::serve {
namespace {

constexpr std::uint64_t shortest_turn_ns = 100'000;  // that Linux accepts

// struct sched_attr in its first version. The C library has neither it nor its calls.
struct scheduling {
    std::uint32_t size = sizeof(scheduling);
    std::uint32_t policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 0;  // of SCHED_OTHER: nanoseconds of a turn; 0 where the system does not know such
    std::uint64_t deadline = 0, period = 0;
};
static_assert(sizeof(scheduling) == 48);

}  // namespace

void take_short_turns() noexcept {
    scheduling its;
    if (::syscall(SYS_sched_getattr, 0, &its, sizeof(its), 0) != 0) return;
    if (its.policy != SCHED_OTHER || its.runtime <= shortest_turn_ns) return;
    its.runtime = shortest_turn_ns;
    // All else stays as it is. Where a sandbox does not allow it, the turns are as long as before.
    static_cast<void>(::syscall(SYS_sched_setattr, 0, &its, 0));
}

}  // namespace sluice::serve
