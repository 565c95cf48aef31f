// simulator: a runtime whose devices exist only on the calling thread. They carry commands out for real, on host
// memory, but one at a time, in any order that the declared waits permit, drawn from a seed; and time is virtual.
//
//     sim::simulator machine;
//     auto x = sync(upload(values).and_then(download), machine.pool());
//     machine.run_all();
//     machine.require_clean();
//
// Nothing runs when it is submitted, or a little does, as the seed has it; the rest runs when the host waits or polls,
// and in run_all(). All the while each command is checked, by vector clocks and a shadow of the memory that know
// nothing of the runtime's own bookkeeping (see fault for what is found). Happens-before comes from the order on a
// stream, from the waits between streams, and from what the host has seen passed before it submits: nothing else.
//
// What it cannot see: kernels are checked by the storage that their launch names, not by each address; a kernel that
// writes what it named as read is found by sampling, one that reads what it did not name only by a different result.
// Memory of the host outside host buffers is not checked. Coroutines run between commands, not beside them: races of
// theirs are for a thread sanitizer, lock-free code for interleaving.hpp.
//
// Time. A host that waits with a deadline waits in virtual time, as deadlines of operations do: so long from when the
// wait or the operation begins, and time goes on with the commands, or to the next deadline when nothing else can
// happen. A deadline given as a point of time has passed when the real clock says so; one in the future lies as far
// ahead as it does in real time, which no seed can bring back: use durations. A host that sleeps in sync_wait() or
// spawned::get() sleeps for ever, since it is the only thread: run() tasks, or co_await in one.
//
// Thread safety: none; one thread uses the simulator, its devices and all that is made on them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include "sluice/async/task.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/driven_wait.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/trace.hpp"
#include "sluice/sim/finding.hpp"

namespace sluice::sim {

namespace detail {
class engine;
class saboteur;
}  // namespace detail

struct simulator_options {
    std::size_t devices = 1;       // "sim:0", "sim:1", ...
    std::size_t streams = 4;       // of pool(); all the streams that there ever are may be fifteen
    std::size_t memory_bytes = 0;  // of each device; 0 sets no limit
    detail::saboteur* planted = nullptr;
};

class simulator {
public:
    explicit simulator(const simulator_options& options = {});
    simulator(const simulator&) = delete;  // devices point into it
    simulator& operator=(const simulator&) = delete;
    // Runs what was submitted. What was made on the devices may outlive it, as with any runtime.
    ~simulator();

    sluice::device& device(std::size_t index = 0) const;
    std::size_t devices() const noexcept;
    // Streams of the first device, in turn.
    scheduling_policy& pool();

    // Runs what was submitted so far, returns cached memory, and starts anew: what happens from here on follows from
    // this seed and from what is submitted. (Seed 0 runs commands in the order of their submission.)
    void begin(std::uint64_t seed);
    // A device breaks down: whichever would be the next to run a command when `commands` have run since begin(). It
    // runs nothing more, what was in flight there may use its memory for ever, and whoever waits must be told. Once; a
    // simulator whose device has broken down is of no further use.
    void break_down_after(std::uint64_t commands) noexcept;
    // What everybody must be told; null before it has come to that.
    std::exception_ptr breakdown() const noexcept;
    // Runs everything, tells all waiters, and looks for streams and waiters that are stuck.
    void run_all();
    // Runs the task here, and all that it needs, up to its end; returns its value or throws what it threw. One that
    // cannot come to its end is a finding, and an exception.
    template <typename T>
    T run(task<T> what) {
        return sluice::detail::await_task(std::move(what), device());
    }

    // Of the schedules since the last clear(), at most a hundred; the first is the one that matters.
    const std::vector<finding>& findings() const noexcept;
    void clear_findings() noexcept;
    // Throws std::runtime_error with the first finding, if there is one.
    void require_clean() const;
    // For checks of one's own.
    void report(fault what, std::string_view message);

    // The commands of this schedule that have run, in virtual time, and who waited for whom.
    trace what_ran() const;
    // Commands carried out, ever.
    std::uint64_t commands() const noexcept;
    // The host's clock: the latest end of what it has seen passed, since begin().
    std::chrono::nanoseconds now() const noexcept;

private:
    std::shared_ptr<detail::engine> engine_;
    struct close {
        void operator()(sluice::detail::runtime_state* state) const noexcept;
    };
    std::unique_ptr<sluice::detail::runtime_state, close> state_;
    std::unique_ptr<round_robin> pool_;
    std::size_t streams_;
};

}  // namespace sluice::sim
