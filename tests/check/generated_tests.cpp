// SPDX-License-Identifier: Apache-2.0
// Random programs, eager, captured and built as graphs, on one device and on two.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "check/support/random_program.hpp"
#include "check/support/simulated_driver.hpp"

namespace sluice::check::generated_tests {
namespace {

using testing::random_command;
using testing::random_edge;
using testing::random_program;
using testing::reads;
using testing::simulated_driver;
using testing::writes;

enum class form { eager, captured, built, two_devices };

struct machine {
    machine(simulated_driver& cuda, const random_program& of, std::uint64_t devices) {
        for (std::size_t i = 0; i < of.streams; ++i) streams.push_back(cuda.non_blocking(i % devices));
        for (std::size_t i = 0; i < of.buffers; ++i) buffers.push_back(cuda.malloc());
    }
    std::vector<simulated_driver::stream> streams;
    std::vector<simulated_driver::memory> buffers;
};

void run_on_streams(simulated_driver& cuda, const machine& with, const random_program& of, const random_edge& without) {
    std::vector<simulated_driver::event> done;
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        const random_command& each = of.commands[i];
        const auto on = with.streams[each.stream];
        for (const std::size_t before : each.after) {
            if (is_left_out(without, before, i) || of.commands[before].stream == each.stream) continue;
            cuda.wait(on, done[before]);
        }
        cuda.launch("kernel", on, {writes(with.buffers[each.written]), reads(with.buffers[each.read])});
        done.push_back(cuda.create_event());
        cuda.record(done.back(), on);
    }
}

void run_captured(simulated_driver& cuda, const machine& with, const random_program& of, const random_edge& without) {
    const auto origin = with.streams.front();
    cuda.begin_capture(origin);
    for (std::size_t i = 1; i < of.streams; ++i) cuda.order(origin, with.streams[i]);
    run_on_streams(cuda, with, of, without);
    for (std::size_t i = 1; i < of.streams; ++i) cuda.order(with.streams[i], origin);
    cuda.launch_graph(cuda.instantiate(cuda.end_capture(origin)), origin);
}

void run_built(simulated_driver& cuda, const machine& with, const random_program& of, const random_edge& without) {
    const auto graph = cuda.create_graph();
    std::vector<std::uint64_t> nodes;
    std::vector<std::optional<std::uint64_t>> last(of.streams);
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        const random_command& each = of.commands[i];
        std::vector<std::uint64_t> after;
        if (last[each.stream]) after.push_back(*last[each.stream]);
        for (const std::size_t before : each.after)
            if (!is_left_out(without, before, i)) after.push_back(nodes[before]);
        nodes.push_back(cuda.kernel_node(graph, "kernel",
                                         {writes(with.buffers[each.written]), reads(with.buffers[each.read])}, after));
        last[each.stream] = nodes.back();
    }
    cuda.launch_graph(cuda.instantiate(graph), with.streams.front());
}

check_report run(const random_program& of, const random_edge& without, form how) {
    simulated_driver cuda;
    const machine with(cuda, of, how == form::two_devices ? 2 : 1);
    if (how == form::captured) {
        run_captured(cuda, with, of, without);
    } else if (how == form::built) {
        run_built(cuda, with, of, without);
    } else {
        run_on_streams(cuda, with, of, without);
    }
    return cuda.check();
}

class generated : public ::testing::TestWithParam<form> {};

}  // namespace

TEST_P(generated, programs_give_a_race_without_one_needed_edge_and_none_with_all) {
    int planted = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const random_program program = testing::make_random_program(random);
        EXPECT_TRUE(run(program, {}, GetParam()).findings.empty());
        const random_edge without = testing::find_needed_edge(program, random);
        if (without.to == 0) continue;
        ++planted;
        const check_report report = run(program, without, GetParam());
        EXPECT_FALSE(report.findings.empty());
        for (const finding& each : report.findings) EXPECT_EQ(each.what, fault::race);
    }
    EXPECT_GE(planted, 100);
}

INSTANTIATE_TEST_SUITE_P(forms, generated,
                         ::testing::Values(form::eager, form::captured, form::built, form::two_devices));

}  // namespace sluice::check::generated_tests
