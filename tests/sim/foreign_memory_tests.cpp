// SPDX-License-Identifier: Apache-2.0
// The simulator and memory of others: a release that comes too early is a finding, of the runtime as
// of the program.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "sim/saboteurs.hpp"
#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::foreign_memory_tests {
namespace {

using numbers = std::vector<float>;
using testing::HasSubstr;

constexpr std::size_t size = 128;

struct alignas(256) program_memory {
    std::array<float, size> values{};
};

// What the program does with memory of its own; when it frees it.
enum class freed { by_the_function, before_the_commands, after_the_drop, never };

template <typename Work>
auto program(freed when, Work work) {
    return [=](simulator& machine) {
        const auto memory = std::make_shared<program_memory>();
        memory->values.fill(1);
        const auto free = [&machine, when, memory](float* data) {
            if (when == freed::by_the_function) machine.memory_freed(data);
        };
        tensor<float> x = adopt(machine.device(), memory->values.data(), {size}, free);
        if (when == freed::before_the_commands) machine.memory_freed(memory->values.data());
        work(machine, std::move(x));
        if (when == freed::after_the_drop) machine.memory_freed(memory->values.data());
        machine.run_all();
        return numbers(memory->values.begin(), memory->values.end());
    };
}

void two_streams(simulator& machine, tensor<float> x) {
    stream a = machine.pool().next(), b = machine.pool().next();
    const tensor<float> y(b, {size});
    set(b, y, 1);
    add(a, x, y);
    add(b, y, x);
}

void one_command(simulator& machine, tensor<float> x) { set(machine.pool().next(), x, 2); }

void halves(simulator& machine, tensor<float> x) {
    stream a = machine.pool().next(), b = machine.pool().next();
    auto [low, high] = split<2>(std::move(x));
    set(a, low, 2);
    set(b, high, 3);
}

template <typename Pipeline>
exploration explored(Pipeline pipeline, saboteur* by = nullptr) {
    return explore(pipeline, {.schedules = 300, .planted = by});
}

template <typename Pipeline>
void expect_found(Pipeline pipeline, fault what, const std::string& words, saboteur* by = nullptr) {
    const exploration made = explored(pipeline, by);
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, what) << *made.found;
    EXPECT_THAT(made.found->message, HasSubstr(words));
}

TEST(foreign_memory, released_by_the_runtime_is_clean) {
    for (const auto work : {two_streams, halves}) {
        const exploration made = explored(program(freed::by_the_function, work));
        EXPECT_TRUE(made.is_clean()) << *made.found;
        EXPECT_EQ(made.schedules, 300u);
    }
}

TEST(foreign_memory, contents_are_those_of_the_program) {
    simulator machine;
    const auto memory = std::make_shared<program_memory>();
    memory->values.fill(5);
    tensor<float> x = adopt(machine.device(), memory->values.data(), {size}, memory);
    stream a = machine.pool().next();
    const tensor<float> y(a, {size});
    set(a, y, 1);
    add(a, y, x);
    EXPECT_EQ(contents(a, std::move(x)), numbers(size, 6));
    machine.run_all();
    machine.require_clean();
}

TEST(foreign_memory, freed_while_commands_use_it_is_found) {
    for (const auto work : {two_streams, halves})
        expect_found(program(freed::after_the_drop, work), fault::use_after_free, "adopted by sim:0");
}

TEST(foreign_memory, freed_before_a_command_names_it_is_found) {
    for (const auto work : {two_streams, halves})
        expect_found(program(freed::before_the_commands, work), fault::use_after_free, "names storage that was freed");
}

// The runtime believes that commands are complete as soon as they are submitted, and so releases the owner too early.
TEST(foreign_memory, released_too_early_by_the_runtime_is_found) {
    completes_too_early by;
    expect_found(program(freed::never, one_command), fault::use_after_free, "memory is freed that", &by);
}

// The same bytes once more, while commands of the first tensor are in flight: later ones come after them.
TEST(foreign_memory, adopted_again_is_ordered_after_what_came_before) {
    const auto twice = [](simulator& machine) {
        const auto memory = std::make_shared<program_memory>();
        float* const data = memory->values.data();
        stream a = machine.pool().next(), b = machine.pool().next();
        tensor<float> first = adopt(machine.device(), data, {size}, memory);
        set(a, first, 1);
        tensor<float> second = adopt(machine.device(), data + 64, {size - 64}, memory);  // while the first one lives
        set(b, second, 2);
        first = tensor<float>();
        second = tensor<float>();
        const tensor<float> third = adopt(machine.device(), data, {size}, memory);
        set(a, third, 3);
        machine.run_all();
        return numbers(data, data + size);
    };
    const exploration clean = explored(twice);
    EXPECT_TRUE(clean.is_clean()) << *clean.found;
    drops_waits by(5);  // stream b is: explore has a pool of four streams, too
    expect_found(twice, fault::race, "adopted by sim:0", &by);
}

// What commands in flight may still use is released with the runtime, not before.
TEST(foreign_memory, of_a_device_that_breaks_down_is_kept) {
    const auto work = [](scheduling_policy& pool) {
        const auto memory = std::make_shared<program_memory>();
        stream a = pool.next(), b = pool.next();
        tensor<float> x = adopt(a.owner(), memory->values.data(), {size}, memory);
        set(a, x, 1);
        const tensor<float> y(b, {size});
        set(b, y, 1);
        add(b, x, y);
        add(a, y, x);
    };
    const exploration made = explore(work, {.schedules = 1000, .with_device_faults = true});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_GT(made.faults, 100u);
    for (std::uint64_t command = 0; command < 4; ++command) {
        int released = 0;
        {
            simulator machine;
            machine.begin(command + 1);
            machine.break_down_after(command);
            const auto memory = std::make_shared<program_memory>();
            try {
                two_streams(machine, adopt(machine.device(), memory->values.data(), {size},
                                           [&released, memory](float*) { ++released; }));
            } catch (const device_error&) {  // seen while submitting
                EXPECT_TRUE(machine.breakdown());
            }
            machine.run_all();
            machine.require_clean();
        }
        EXPECT_EQ(released, 1) << command;
    }
}

}  // namespace
}  // namespace sluice::sim::foreign_memory_tests
