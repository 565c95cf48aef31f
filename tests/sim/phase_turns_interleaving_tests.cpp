// SPDX-License-Identifier: Apache-2.0
// How threads divide the parts of phases, and the places of scratch memory, under thousands of schedules; and the same
// with a planted fault.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels/channels_last/scratch_places.hpp"
#include "runtime/phase_turns.hpp"
#include "sluice/sim/atomic.hpp"
#include "sluice/sim/interleaving.hpp"

namespace sluice::sim::phase_turns_interleaving_tests {
namespace {

using sluice::detail::parts_from;

// Phases of 1, 3, 2 and 4 parts. The second and the third are one: their number is that of the first.
struct phases {
    static constexpr std::size_t end = 5;
    std::array<std::size_t, end> parts_of{1, 3, 0, 2, 4};
    mutable std::array<std::array<int, 4>, end> runs{};
    mutable std::array<std::size_t, end> over{};
    mutable std::size_t running_phase = 0;

    std::size_t parts(std::size_t phase) const noexcept { return parts_of[phase]; }
    std::size_t after(std::size_t phase) const noexcept { return phase == 1 ? 3 : phase + 1; }
    void run(std::size_t phase, std::size_t part) const noexcept {
        check(part < parts_of[phase], "a part that does not exist");
        for (std::size_t before = 0; before < phase; before = after(before))
            check(over[before] == parts_of[before], "a phase has begun before the one before is over");
        check(++runs[phase][part] == 1, "a part ran twice");
        scheduling_point();
        ++over[phase];
    }
};

struct team {
    phases work;
    sluice::detail::phase_turns<atomics> turns{0};
    atomic<bool> needs_helpers{false};

    bool take_part(parts_from from, int& parts_until_leave) {
        return turns.take_part(
            work, phases::end, from, [&] { return parts_until_leave == 0; },
            [](const auto& is_true) { wait_until(is_true); }, [&] { --parts_until_leave; });
    }
    void check_all_over() const {
        for (std::size_t phase = 0; phase < phases::end; phase = work.after(phase))
            check(work.over[phase] == work.parts_of[phase], "a part was left out");
    }
};

constexpr int never = -1;

// The thread of the command and two helpers. The first helper leaves after two parts, and comes back.
scenario three_threads() {
    const auto all = std::make_shared<team>();
    const auto thread = [all](parts_from from, int parts_until_leave) {
        while (!all->take_part(from, parts_until_leave)) parts_until_leave = never;
        all->check_all_over();
    };
    return {.threads = {[=] { thread(parts_from::front, never); }, [=] { thread(parts_from::back, 2); },
                        [=] { thread(parts_from::back, never); }},
            .finally = [all] { all->check_all_over(); }};
}

}  // namespace

TEST(phase_turns_interleavings, each_part_runs_once_and_after_all_of_the_phases_before) {
    const auto result = interleave(three_threads, {.schedules = 20'000});
    EXPECT_FALSE(result.failure) << result.failure->message << ", seed " << result.failure->seed;
}

namespace {

// A work whose parts end after the thread has said so would let the next phase begin too early; the explorer sees it.
struct late_phases : phases {
    void run(std::size_t phase, std::size_t part) const noexcept {
        if (phase == 0) {
            ++runs[phase][part];  // and `over` is not set: as if the sum were taken before the work
            return;
        }
        phases::run(phase, part);
    }
};

}  // namespace

TEST(phase_turns_interleavings, a_phase_that_begins_too_early_is_found) {
    const auto make = [] {
        const auto turns = std::make_shared<sluice::detail::phase_turns<atomics>>(std::size_t{0});
        const auto work = std::make_shared<late_phases>();
        const auto thread = [=](parts_from from) {
            turns->take_part(
                *work, phases::end, from, [] { return false; }, [](const auto& is_true) { wait_until(is_true); },
                [] {});
        };
        return scenario{.threads = {[=] { thread(parts_from::front); }, [=] { thread(parts_from::back); }},
                        .finally = {}};
    };
    EXPECT_TRUE(interleave(make, {.schedules = 100}).failure);
}

namespace {

template <typename Places>
scenario four_users() {
    struct state {
        Places places;
        std::array<int, 32> users{};
    };
    const auto s = std::make_shared<state>();
    const auto use = [s] {
        for (int i = 0; i < 3; ++i) {
            const std::size_t place = s->places.take();
            check(place < 4, "a higher place than there are users");
            check(++s->users[place] == 1, "two users of a place");
            scheduling_point();
            --s->users[place];
            s->places.give_back(place);
        }
    };
    return {.threads = {use, use, use, use}, .finally = {}};
}

// Looks and takes in two steps.
class hasty_places {
public:
    std::size_t take() noexcept {
        const std::uint32_t used = used_.load();
        const auto place = static_cast<std::size_t>(std::countr_one(used));
        used_.fetch_or(std::uint32_t{1} << place);
        return place;
    }
    void give_back(std::size_t place) noexcept { used_.fetch_and(~(std::uint32_t{1} << place)); }

private:
    atomic<std::uint32_t> used_{0};
};

}  // namespace

TEST(scratch_places_interleavings, a_place_has_one_user_at_a_time) {
    const auto result = interleave(four_users<kernels::scratch_places<atomics>>, {.schedules = 20'000});
    EXPECT_FALSE(result.failure) << result.failure->message << ", seed " << result.failure->seed;
    EXPECT_TRUE(interleave(four_users<hasty_places>, {.schedules = 1'000}).failure);
}

}  // namespace sluice::sim::phase_turns_interleaving_tests
