// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel_phases.hpp"

#include <thread>

#include "runtime/phase_turns.hpp"
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
          turns_(first) {}

    void do_all() const noexcept { run_alone(work_, first_, end_); }

    // Takes part until all phases are over; a helper perhaps only until the device needs it, and then returns false.
    bool take_part() noexcept {
        const bool is_helper = std::this_thread::get_id() != owner_;
        return turns_.take_part(
            work_, end_, is_helper ? parts_from::back : parts_from::front,
            [&] { return is_helper && runner_.needs_thread(); },
            [](const auto& is_true) {
                for (short_wait wait; !is_true();) wait();
            },
            [&] {
                if (!is_helper && wakes_ == team_wakes::always) runner_.wake_helpers();
            });
    }

private:
    const phased_work& work_;
    const std::size_t first_, end_;
    part_runner& runner_;
    const team_wakes wakes_;
    const std::thread::id owner_;
    phase_turns<> turns_;
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
