// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/compute_nice.hpp"

#include <atomic>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

constexpr int most_steps = 19;
std::atomic<int> steps_of_process{0};

}  // namespace

void set_compute_nice(int steps) {
    if (steps < 0 || steps > most_steps) {
        throw error(errc::invalid_argument, "threads that compute cannot have a niceness of " + std::to_string(steps) +
                                                "; accepted is 0 to " + std::to_string(most_steps));
    }
    steps_of_process = steps;
}

int compute_nice() noexcept { return steps_of_process; }

// On Linux a niceness is of a thread, and one above 19 is 19.
void become_less_urgent() noexcept {
    const int steps = compute_nice();
    if (steps == 0) return;
    const auto self = static_cast<id_t>(::gettid());
    static_cast<void>(::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + steps));
}

}  // namespace sluice::serve
