// SPDX-License-Identifier: Apache-2.0
// The host threads of simulator::run_threads. They run one at a time and hand over where the schedule decides.
//
// They are threads of the operating system, because the runtime's mutexes know threads and not fibers. A thread stops
// at a scheduling point (where a command or a wait is handed to a simulated stream, with locks of the runtime held),
// where it finds a lock taken (lock_scheduler), where nothing that it waits for can run, and at its end. Hand-overs use
// one mutex, so each thread sees everything that earlier threads did.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "sim/vector_clock.hpp"
#include "sluice/base/detail/lock_scheduler.hpp"

namespace sluice::sim::detail {

class sim_machine;

class host_threads final : public sluice::detail::lock_scheduler {
public:
    explicit host_threads(sim_machine& in) noexcept : machine_(in) {}
    host_threads(const host_threads&) = delete;  // its threads point to it
    host_threads& operator=(const host_threads&) = delete;
    ~host_threads() = default;

    // Runs all functions to their end; then rethrows the exception of the first in the list that threw.
    void run(std::vector<std::function<void()>> bodies);

    // At this point another thread may run.
    void scheduling_point() noexcept;
    void let_others_run() noexcept override;
    // Called when nothing that this thread waits for can run. Returns whether another thread ran instead, which may
    // change that.
    bool run_others() noexcept;
    // A command has run, so waiting threads may have work to do.
    void something_ran() noexcept { idle_hand_overs_ = 0; }

private:
    void live(std::size_t self, const std::function<void()>& body) noexcept;
    // Hands over to a random other thread that has not ended; returns when the calling thread runs again.
    bool hand_over() noexcept;
    std::size_t draw_other() noexcept;

    sim_machine& machine_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable may_run_;
    std::vector<bool> has_ended_;
    std::vector<vector_clock> knows_;  // what each thread that is not running has seen passed
    vector_clock all_know_;            // what the threads that have ended have seen
    std::vector<std::exception_ptr> thrown_;
    std::size_t running_ = 0;
    std::size_t idle_hand_overs_ = 0;  // consecutive hand-overs during which nothing happened
};

}  // namespace sluice::sim::detail
