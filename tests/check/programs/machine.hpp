// SPDX-License-Identifier: Apache-2.0
// What the programs of planted.cpp begin with, and the steps that several of them take.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace planted {

constexpr int elements = 1 << 20;
constexpr std::size_t bytes = elements * sizeof(float);

inline void require(cudaError_t what, const char* file, int line) {
    if (what == cudaSuccess) return;
    std::fprintf(stderr, "%s, line %d: %s\n", file, line, cudaGetErrorString(what));
    std::exit(1);
}
#define REQUIRE(call) ::planted::require((call), __FILE__, __LINE__)

// Kernels: of `elements` floats unless they say otherwise.
void run_make(float* to, cudaStream_t on);
void run_add(const float* from, float* to, cudaStream_t on);
void run_untyped(float* to, cudaStream_t on);                    // its name has no types
void run_in_struct(float* to, cudaStream_t on);                  // the pointer is in a struct
void run_of_10_us(float* to, cudaStream_t on);                   // spins, then writes one float
void run_append(const float* from, float* to, cudaStream_t on);  // of 256 floats

struct machine {
    cudaStream_t a{}, b{}, blocking{};
    float *x{}, *y{}, *pinned{};
    cudaEvent_t done{}, other{};
    std::vector<float> pageable = std::vector<float>(elements);

    machine();
    void order(cudaStream_t first, cudaStream_t second) const {
        REQUIRE(cudaEventRecord(done, first));
        REQUIRE(cudaStreamWaitEvent(second, done, 0));
    }
};

// From pinned memory into x and y, as one batch.
void batched_upload(machine& with, cudaStream_t on);
// Launches it twice, waits and destroys it.
void launch_twice(cudaGraph_t graph, cudaStream_t on);
cudaGraphExec_t instantiate(cudaGraph_t graph);
// make and add as nodes.
cudaGraph_t build_graph(const machine& with, bool has_edge);
cudaGraphNode_t add_append_node(cudaGraph_t to, const std::vector<cudaGraphNode_t>& after, const float* from,
                                float* into);

struct program {
    const char* name;
    const char* kinds;  // of what is to be found, with commas between; "races": some; "clean"; "unseen: " and why
    void (*run)(machine& with);
};

struct programs {
    const program* first;
    std::size_t count;
};
programs mistakes();  // planted.cpp
programs clean();     // clean.cpp

// random_programs.cpp: "random_eager_3" lacks an edge, "random_eager_3_whole" has all.
bool run_random(const char* name);  // false: it has no such name
void list_random();

}  // namespace planted
