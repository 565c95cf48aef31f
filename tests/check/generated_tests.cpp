// SPDX-License-Identifier: Apache-2.0
// Random programs whose answer is known by construction: a random graph of commands, spread over streams, with an event
// for each edge between streams. With all edges there is nothing to find; without one edge that no other path replaces,
// there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "check/support/simulated_driver.hpp"

namespace sluice::check::generated_tests {
namespace {

using testing::reads;
using testing::simulated_driver;
using testing::writes;

struct command {
    std::size_t stream;
    std::size_t written, read;       // buffers
    std::vector<std::size_t> after;  // commands that it must follow
};

struct random_program {
    std::vector<command> commands;
    std::size_t streams = 0, buffers = 0;
};

struct edge {
    std::size_t from, to;
};

// Each command follows those that it conflicts with.
random_program make(std::mt19937_64& random) {
    random_program made;
    made.streams = 2 + random() % 5;
    made.buffers = 2 + random() % 6;
    const std::size_t count = 4 + random() % 30;
    for (std::size_t i = 0; i < count; ++i) {
        command next{random() % made.streams, random() % made.buffers, random() % made.buffers, {}};
        for (std::size_t k = 0; k < i; ++k) {
            const command& earlier = made.commands[k];
            if (earlier.written == next.written || earlier.written == next.read || earlier.read == next.written)
                next.after.push_back(k);
        }
        made.commands.push_back(next);
    }
    return made;
}

// Whether a path leads from one command to the other, through streams and edges other than the one left out.
bool is_ordered(const random_program& of, const edge& without) {
    std::set<std::size_t> reached{without.from};
    for (std::size_t i = without.from + 1; i <= without.to; ++i) {
        const command& each = of.commands[i];
        for (std::size_t k = 0; k < i; ++k) {
            const bool is_same_stream = of.commands[k].stream == each.stream;
            const bool is_edge = std::ranges::count(each.after, k) != 0 && !(k == without.from && i == without.to);
            if (reached.contains(k) && (is_same_stream || is_edge)) reached.insert(i);
        }
    }
    return reached.contains(without.to);
}

check_report run(const random_program& of, const edge* without, bool captured) {
    simulated_driver cuda;
    std::vector<simulated_driver::stream> streams;
    std::vector<simulated_driver::memory> buffers;
    for (std::size_t i = 0; i < of.streams; ++i) streams.push_back(cuda.non_blocking());
    for (std::size_t i = 0; i < of.buffers; ++i) buffers.push_back(cuda.malloc());
    if (captured) {
        cuda.begin_capture(streams[0]);
        for (std::size_t i = 1; i < of.streams; ++i) cuda.order(streams[0], streams[i]);
    }
    std::vector<simulated_driver::event> done;
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        const command& each = of.commands[i];
        for (const std::size_t before : each.after) {
            if (without != nullptr && without->from == before && without->to == i) continue;
            if (of.commands[before].stream != each.stream) cuda.wait(streams[each.stream], done[before]);
        }
        cuda.launch("kernel", streams[each.stream], {writes(buffers[each.written]), reads(buffers[each.read])});
        done.push_back(cuda.create_event());
        cuda.record(done.back(), streams[each.stream]);
    }
    if (captured) {
        for (std::size_t i = 1; i < of.streams; ++i) cuda.order(streams[i], streams[0]);
        cuda.launch_graph(cuda.instantiate(cuda.end_capture(streams[0])), streams[0]);
    }
    return cuda.check();
}

// Some edge between streams that nothing else replaces; of the same commands in `from` and `to` when there is none.
edge find_needed(const random_program& of, std::mt19937_64& random) {
    std::vector<edge> needed;
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        for (const std::size_t before : of.commands[i].after) {
            const edge each{before, i};
            if (!is_ordered(of, each)) needed.push_back(each);
        }
    }
    return needed.empty() ? edge{0, 0} : needed[random() % needed.size()];
}

class generated : public ::testing::TestWithParam<bool> {};

}  // namespace

TEST_P(generated, programs_give_a_race_without_one_needed_edge_and_none_with_all) {
    int planted = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const random_program program = make(random);
        EXPECT_TRUE(run(program, nullptr, GetParam()).findings.empty());
        const edge without = find_needed(program, random);
        if (without.to == 0) continue;
        ++planted;
        const check_report report = run(program, &without, GetParam());
        EXPECT_FALSE(report.findings.empty());
        for (const finding& each : report.findings) EXPECT_EQ(each.what, fault::race);
    }
    EXPECT_GE(planted, 100);
}

INSTANTIATE_TEST_SUITE_P(eager_and_captured, generated, ::testing::Bool());

}  // namespace sluice::check::generated_tests
