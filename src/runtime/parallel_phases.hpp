// SPDX-License-Identifier: Apache-2.0
// run_phases: the work of one command of a CPU device as phases that depend on each other, each divided into parts. The
// threads that help stay from one phase to the next, so that the end of a phase costs less than a microsecond; a
// for_parts for each phase would cost several.
//
// Each phase begins when all parts of the one before are over, and sees what they wrote. A thread takes the next part
// with one atomic operation. A helper leaves between two parts when the device has other work for it.
#pragma once

#include <cstddef>

#include "runtime/parallel_parts.hpp"

namespace sluice::detail {

class phased_work {
public:
    // Of a phase: how many parts it has, at least one, and the number of the phase after it, which is larger. The same
    // for each call.
    virtual std::size_t parts(std::size_t phase) const noexcept = 0;
    virtual std::size_t after(std::size_t phase) const noexcept = 0;
    // Carries out a part. Called on any thread of the device, for each part once: on the thread of the command from the
    // first part on, on the others from the last one back.
    virtual void run(std::size_t phase, std::size_t part) const noexcept = 0;
    // Carries out all parts of a phase. Called instead where one thread carries out all phases.
    virtual void run_all(std::size_t phase) const noexcept {
        const std::size_t all = parts(phase);
        for (std::size_t part = 0; part < all; ++part) run(phase, part);
    }

protected:
    ~phased_work() = default;
};

// Carries out the phases from `first` on, up to the one that would be `end`, on this thread and on workers that have
// nothing else to do. Returns when all are over. There are fewer than 2^32 phases, and at most
// 65,535 parts of a phase.
void run_phases(const phased_work& work, std::size_t first, std::size_t end, team_wakes wakes = team_wakes::always);

}  // namespace sluice::detail
