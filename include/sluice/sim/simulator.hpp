// SPDX-License-Identifier: Apache-2.0
// simulator: a runtime whose devices exist only on the calling thread. They run commands for real, on host memory, but
// one at a time, in an order that a seed selects among those that the declared waits permit. Time is virtual.
//
//     sim::simulator machine;
//     auto x = sync(upload(values).and_then(download), machine.pool());
//     machine.run_all();
//     machine.require_clean();
//
// At submission no command runs, or a few do, as the seed decides; the rest run when the host waits or polls, and in
// run_all(). Each command is checked with vector clocks and shadow memory that are independent of the runtime's own
// bookkeeping (enum fault lists what is found). Happens-before comes only from the order on a stream, from the waits
// between streams, and from what the host has seen passed before it submits.
//
// Limits: kernels are checked by the storage that their launch names, not by each address. A kernel that writes what it
// named as read is found by sampling; one that reads what it did not name is found only by a different result. Host
// memory outside host buffers is not checked. Coroutines run between commands, not concurrently with them: use a thread
// sanitizer for their races, and interleaving.hpp for lock-free code.
//
// Time. Waits of the host with a deadline and deadlines of operations count virtual time, from the start of the wait or
// of the operation. Commands advance this time; when nothing else can happen it jumps to the next deadline. A deadline
// given as a point in time has passed when the real clock says so; one in the future is as far ahead as in real time,
// which no seed can reproduce: use durations. On the thread that created the simulator, and in run_threads(),
// sync_wait() and spawned::get() run the devices while they wait. Where nothing more can happen there, they wait
// three seconds, in real time, for other threads of the program, and are then a finding and an exception.
//
// Threads. run_threads() runs each function on its own host thread, one thread at a time. The schedule decides when a
// thread stops and which continues, also in the middle of a submission. Each thread knows only what it has itself seen
// passed. Memory accesses of host threads count as ordered; use a thread sanitizer to find data that one thread passes
// to another too early.
//
// Thread safety: none. One thread uses the simulator, its devices and all objects created on them; while run_threads()
// runs, its threads use them instead.
//
// All members take constant time, but for these: the constructor is linear in the number of devices, executed_trace in
// that of the commands of this schedule, and begin, run_all, run and run_threads run commands.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "sluice/async/task.hpp"
#include "sluice/runtime/detail/driven_wait.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/sim/finding.hpp"
#include "sluice/trace/trace.hpp"

namespace sluice::sim {

namespace detail {
class sim_machine;
class saboteur;
}  // namespace detail

// The machine that is simulated.
struct simulator_options {
    std::size_t devices = 1;              // "sim:0", "sim:1", ...
    std::size_t streams = 4;              // of pool(); at most fifteen streams may ever exist
    std::size_t memory_bytes = 0;         // of each device; 0 sets no limit
    detail::saboteur* planted = nullptr;  // for tests of the simulator: a fault that it has to find
};

class simulator {
public:
    // Creates the devices, on which nothing runs yet.
    explicit simulator(const simulator_options& options = {});
    simulator(const simulator&) = delete;  // devices point into it
    simulator& operator=(const simulator&) = delete;
    // Runs what was submitted. Objects created on the devices may outlive it, as with any runtime.
    ~simulator();

    // The device of this number. Throws errc::device_not_found for another one.
    sluice::device& device(std::size_t index = 0) const;
    std::size_t devices() const noexcept;  // the number of devices
    // Streams of the first device, round robin.
    scheduling_policy& pool();

    // Runs what was submitted so far, returns cached memory, and starts a new schedule, which depends only on this seed
    // and on what is submitted. (Seed 0 runs commands in the order of their submission.)
    void begin(std::uint64_t seed);
    // Breaks down one device: the one that would run the next command when `commands` have run since begin(). It runs
    // nothing more, its commands in flight may use their memory for ever, and every waiter must receive the error. Only
    // once: a simulator whose device has broken down is of no further use.
    void break_down_after(std::uint64_t commands) noexcept;
    // The error that every waiter must receive; null before the breakdown.
    std::exception_ptr breakdown() const noexcept;
    // For programs with memory of their own under tensors (runtime/adopt.hpp): the program frees the memory at this
    // address now. A finding when commands in flight use it, or when a later command names it.
    void memory_freed(const void* data);
    // Runs everything, wakes all waiters, and looks for streams and waiters that are stuck.
    void run_all();
    // Runs the task on the calling thread to its end, and everything that it needs; returns its value or throws what it
    // threw. A task that can never end is a finding and an exception.
    template <typename T>
    T run(task<T> what) {
        return sluice::detail::await_task(std::move(what), device());
    }

    // Runs each function on its own thread; returns when all have ended, and rethrows the exception of the first
    // function in the list that threw. The functions submit to the simulator's devices, to their own streams or to
    // shared ones, and may wait. They may wait for each other only through futures, and must not take their own locks
    // while they submit.
    void run_threads(std::vector<std::function<void()>> threads);

    // The findings since the last clear_findings(), at most a hundred; the first is the one that matters.
    const std::vector<finding>& findings() const noexcept;
    void clear_findings() noexcept;  // forgets all findings
    // Throws std::runtime_error with the first finding if there is one.
    void require_clean() const;
    // Adds a finding, for the caller's own checks.
    void report(fault what, std::string_view message);

    // The commands of this schedule that have run, in virtual time, and the waits between streams.
    trace executed_trace() const;
    // Commands run in all schedules.
    std::uint64_t commands() const noexcept;
    // The host's clock: the latest end among the commands that it has seen passed, since begin().
    std::chrono::nanoseconds now() const noexcept;

private:
    std::shared_ptr<detail::sim_machine> machine_;
    struct close {
        void operator()(sluice::detail::runtime_state* state) const noexcept;
    };
    std::unique_ptr<sluice::detail::runtime_state, close> state_;
    std::unique_ptr<round_robin> pool_;
    std::size_t streams_;
};

}  // namespace sluice::sim
