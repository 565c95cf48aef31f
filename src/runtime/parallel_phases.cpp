// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel_phases.hpp"

#include <atomic>
#include <cstdint>
#include <thread>

#include "runtime/short_wait.hpp"

namespace sluice::detail {
namespace {

void run_alone(const phased_work& work, std::size_t first, std::size_t end) noexcept {
    for (std::size_t phase = first; phase != end; phase = work.after(phase)) work.run_all(phase);
}

class team {
public:
    team(const phased_work& work, std::size_t first, std::size_t end, part_runner& runner, team_wakes wakes)
        : work_(work),
          first_(first),
          end_(end),
          runner_(runner),
          wakes_(wakes),
          owner_(std::this_thread::get_id()),
          turn_(turn{static_cast<std::uint32_t>(first)}) {}

    void do_all() const noexcept { run_alone(work_, first_, end_); }

    // Takes part until all phases are over; a helper perhaps only until the device needs it, and then returns false.
    bool take_part() noexcept {
        const bool may_leave = std::this_thread::get_id() != owner_;
        std::size_t known = end_, parts = 0;  // of the phase that was seen last
        for (short_wait wait;;) {
            turn now = turn_.load(std::memory_order_acquire);
            if (now.phase == end_) return true;
            if (now.phase != known) {
                known = now.phase;
                parts = work_.parts(known);
            }
            if (may_leave && runner_.needs_thread()) return false;
            if (std::size_t{now.from_front} + now.from_back == parts) {
                wait();
                continue;
            }
            turn next = now;
            const std::size_t part = may_leave ? parts - ++next.from_back : next.from_front++;
            if (!turn_.compare_exchange_weak(now, next, std::memory_order_acq_rel, std::memory_order_relaxed)) continue;
            const std::size_t phase = now.phase;
            work_.run(phase, part);
            wait = short_wait();
            // The thread that ends the last part has seen all others end: the next phase reads what they wrote.
            if (over_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts) {
                over_.store(0, std::memory_order_relaxed);
                turn_.store({static_cast<std::uint32_t>(work_.after(phase))}, std::memory_order_release);
            }
            if (!may_leave && wakes_ == team_wakes::always) runner_.wake_helpers();
        }
    }

private:
    // The phase, and how many of its parts have begun: this thread takes them from the front, helpers from the back. So
    // each finds in its cache what it wrote in the phase before, where parts are neighbouring rows.
    struct turn {
        std::uint32_t phase;
        std::uint16_t from_front = 0, from_back = 0;
    };

    const phased_work& work_;
    const std::size_t first_, end_;
    part_runner& runner_;
    const team_wakes wakes_;
    const std::thread::id owner_;
    alignas(64) std::atomic<turn> turn_;
    static_assert(std::atomic<turn>::is_always_lock_free);
    alignas(64) std::atomic<std::size_t> over_{0};  // parts of the phase
};

}  // namespace

void run_phases(const phased_work& work, std::size_t first, std::size_t end, team_wakes wakes) {
    if (first == end) return;
    part_runner* const runner = current_part_runner();
    std::size_t most_parts = 0, threads = runner == nullptr ? 1 : runner->threads();
    if (threads > 1) {
        for (std::size_t phase = first; phase != end; phase = work.after(phase)) {
            const std::size_t parts = work.parts(phase);
            most_parts = parts < most_parts ? most_parts : parts;
        }
        threads = threads < most_parts ? threads : most_parts;
    }
    if (threads <= 1) return run_alone(work, first, end);
    team all(work, first, end, *runner, wakes);
    runner->run_team({[](void* erased) { return static_cast<team*>(erased)->take_part(); },
                      [](void* erased) { static_cast<team*>(erased)->do_all(); }, &all},
                     threads - 1, wakes);
}

}  // namespace sluice::detail
