// SPDX-License-Identifier: Apache-2.0
// Random programs of CUDA, of which the generator knows whether they have a race: eager, captured and built as graphs.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "../support/random_program.hpp"
#include "machine.hpp"

namespace planted {
namespace {

using sluice::check::testing::find_needed_edge;
using sluice::check::testing::is_left_out;
using sluice::check::testing::make_random_program;
using sluice::check::testing::random_command;
using sluice::check::testing::random_edge;
using sluice::check::testing::random_program;

constexpr const char* forms[] = {"eager", "captured", "built"};
constexpr std::uint64_t with_mistake = 9, whole = 3;  // of each form

struct generated {
    random_program program;
    random_edge without;
};

// Number `which` of those that have an edge which nothing replaces.
generated make(std::uint64_t which) {
    for (std::uint64_t seed = 0;; ++seed) {
        std::mt19937_64 random(seed);
        generated made;
        made.program = make_random_program(random);
        made.without = find_needed_edge(made.program, random);
        if (made.without.to != 0 && which-- == 0) return made;
    }
}

struct streams_and_buffers {
    explicit streams_and_buffers(const random_program& of) : streams(of.streams), buffers(of.buffers) {
        for (cudaStream_t& each : streams) REQUIRE(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
        for (float*& each : buffers) REQUIRE(cudaMalloc(&each, 256 * sizeof(float)));
    }
    std::vector<cudaStream_t> streams;
    std::vector<float*> buffers;
};

void order(cudaStream_t first, cudaStream_t second) {
    cudaEvent_t event{};
    REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    REQUIRE(cudaEventRecord(event, first));
    REQUIRE(cudaStreamWaitEvent(second, event, 0));
}

void run_on_streams(const streams_and_buffers& with, const random_program& of, const random_edge& without) {
    std::vector<cudaEvent_t> done(of.commands.size());
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        const random_command& each = of.commands[i];
        const cudaStream_t on = with.streams[each.stream];
        for (const std::size_t before : each.after) {
            if (is_left_out(without, before, i) || of.commands[before].stream == each.stream) continue;
            REQUIRE(cudaStreamWaitEvent(on, done[before], 0));
        }
        run_append(with.buffers[each.read], with.buffers[each.written], on);
        REQUIRE(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
        REQUIRE(cudaEventRecord(done[i], on));
    }
}

void run_captured(const streams_and_buffers& with, const random_program& of, const random_edge& without) {
    cudaGraph_t graph{};
    const cudaStream_t origin = with.streams.front();
    REQUIRE(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    for (std::size_t i = 1; i < of.streams; ++i) order(origin, with.streams[i]);
    run_on_streams(with, of, without);
    for (std::size_t i = 1; i < of.streams; ++i) order(with.streams[i], origin);
    REQUIRE(cudaStreamEndCapture(origin, &graph));
    launch_twice(graph, origin);
}

// A node follows the last one of its stream.
void run_built(const streams_and_buffers& with, const random_program& of, const random_edge& without) {
    cudaGraph_t graph{};
    REQUIRE(cudaGraphCreate(&graph, 0));
    std::vector<cudaGraphNode_t> nodes(of.commands.size());
    std::map<std::size_t, std::size_t> last;  // by stream
    for (std::size_t i = 0; i < of.commands.size(); ++i) {
        const random_command& each = of.commands[i];
        std::vector<std::size_t> before;
        for (const std::size_t k : each.after)
            if (!is_left_out(without, k, i)) before.push_back(k);
        if (last.count(each.stream) != 0) before.push_back(last[each.stream]);
        std::sort(before.begin(), before.end());
        before.erase(std::unique(before.begin(), before.end()), before.end());
        std::vector<cudaGraphNode_t> after;
        for (const std::size_t k : before) after.push_back(nodes[k]);
        nodes[i] = add_append_node(graph, after, with.buffers[each.read], with.buffers[each.written]);
        last[each.stream] = i;
    }
    launch_twice(graph, with.streams.front());
}

std::string name_of(const char* form, std::uint64_t which, bool is_whole) {
    return std::string("random_") + form + "_" + std::to_string(which) + (is_whole ? "_whole" : "");
}

void run(const std::string& form, const generated& of, bool is_whole) {
    const streams_and_buffers with(of.program);
    REQUIRE(cudaDeviceSynchronize());
    const random_edge without = is_whole ? random_edge{} : of.without;
    if (form == "eager") run_on_streams(with, of.program, without);
    if (form == "captured") run_captured(with, of.program, without);
    if (form == "built") run_built(with, of.program, without);
    REQUIRE(cudaDeviceSynchronize());
}

}  // namespace

bool run_random(const char* name) {
    for (const char* const form : forms) {
        for (const bool is_whole : {false, true}) {
            for (std::uint64_t i = 0; i < (is_whole ? whole : with_mistake); ++i) {
                if (name_of(form, i, is_whole) != name) continue;
                run(form, make(i), is_whole);
                return true;
            }
        }
    }
    return false;
}

void list_random() {
    for (const char* const form : forms) {
        for (std::uint64_t i = 0; i < with_mistake; ++i) std::printf("%s\traces\n", name_of(form, i, false).c_str());
        for (std::uint64_t i = 0; i < whole; ++i) std::printf("%s\tclean\n", name_of(form, i, true).c_str());
    }
}

}  // namespace planted
