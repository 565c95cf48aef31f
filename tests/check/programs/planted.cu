// SPDX-License-Identifier: Apache-2.0
// Programs of CUDA with one mistake, and programs without any, for `sluice check`:
//
//   check_planted NAME      runs one
//   check_planted --list    prints each name, and what is wrong with it: the kind of finding, or "clean"
//
// They use the runtime only, as a program that does not know Sluice does.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int elements = 1 << 20;
constexpr std::size_t bytes = elements * sizeof(float);

void require(cudaError_t what, int line) {
    if (what == cudaSuccess) return;
    std::fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(what));
    std::exit(1);
}
#define REQUIRE(call) require((call), __LINE__)

__global__ void make(float* to) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < elements) to[at] = static_cast<float>(at);
}

__global__ void add(const float* from, float* to) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < elements) to[at] += from[at];
}

extern "C" __global__ void untyped(float* to) { to[threadIdx.x] = 1; }

void run_make(float* to, cudaStream_t on) { make<<<elements / 256, 256, 0, on>>>(to); }
void run_add(const float* from, float* to, cudaStream_t on) { add<<<elements / 256, 256, 0, on>>>(from, to); }

// What all begin with.
struct machine {
    cudaStream_t a{}, b{}, blocking{};
    float *x{}, *y{}, *pinned{};
    cudaEvent_t done{}, other{};
    std::vector<float> pageable = std::vector<float>(elements);

    machine() {
        REQUIRE(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        REQUIRE(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        REQUIRE(cudaStreamCreate(&blocking));
        REQUIRE(cudaMalloc(&x, bytes));
        REQUIRE(cudaMalloc(&y, bytes));
        REQUIRE(cudaMallocHost(&pinned, bytes));
        REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
        REQUIRE(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
        REQUIRE(cudaDeviceSynchronize());
    }
    void order(cudaStream_t first, cudaStream_t second) const {
        REQUIRE(cudaEventRecord(done, first));
        REQUIRE(cudaStreamWaitEvent(second, done, 0));
    }
};

void launch_captured(cudaGraph_t graph, cudaStream_t on) {
    cudaGraphExec_t exec{};
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
    REQUIRE(cudaGraphLaunch(exec, on));
    REQUIRE(cudaGraphLaunch(exec, on));
    REQUIRE(cudaStreamSynchronize(on));
    REQUIRE(cudaGraphExecDestroy(exec));
    REQUIRE(cudaGraphDestroy(graph));
}

void built_graph(machine& with, bool has_edge) {
    cudaGraph_t graph{};
    REQUIRE(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t first{}, second{};
    void* make_arguments[] = {&with.x};
    cudaKernelNodeParams node{};
    node.func = reinterpret_cast<void*>(make);
    node.gridDim = dim3(elements / 256);
    node.blockDim = dim3(256);
    node.kernelParams = make_arguments;
    REQUIRE(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &node));
    void* add_arguments[] = {&with.x, &with.y};
    node.func = reinterpret_cast<void*>(add);
    node.kernelParams = add_arguments;
    REQUIRE(cudaGraphAddKernelNode(&second, graph, has_edge ? &first : nullptr, has_edge ? 1 : 0, &node));
    launch_captured(graph, with.a);
}

void captured(machine& with, bool is_joined_early) {
    cudaGraph_t graph{};
    REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
    if (is_joined_early) run_make(with.x, with.a);
    with.order(with.a, with.b);
    if (!is_joined_early) run_make(with.x, with.a);
    run_add(with.x, with.y, with.b);
    REQUIRE(cudaEventRecord(with.other, with.b));
    REQUIRE(cudaStreamWaitEvent(with.a, with.other, 0));
    REQUIRE(cudaStreamEndCapture(with.a, &graph));
    launch_captured(graph, with.a);
}

struct program {
    const char* name;
    const char* kind;
    void (*run)(machine& with);
};

const program programs[] = {
    {"kernel_and_kernel", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         run_add(with.x, with.y, with.b);
     }},
    {"upload_and_kernel", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpyAsync(with.x, with.pinned, bytes, cudaMemcpyHostToDevice, with.a));
         run_add(with.x, with.y, with.b);
     }},
    {"kernel_and_download", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaMemcpyAsync(with.pinned, with.x, bytes, cudaMemcpyDeviceToHost, with.b));
     }},
    {"fill_and_untyped_kernel", "race",
     [](machine& with) {
         REQUIRE(cudaMemsetAsync(with.x, 0, bytes, with.a));
         untyped<<<1, 32, 0, with.b>>>(with.x);
     }},
    {"default_stream_and_non_blocking", "race",
     [](machine& with) {
         run_make(with.x, with.a);
         run_add(with.x, with.y, nullptr);
     }},
    {"fill_returns_early", "race",
     [](machine& with) {
         REQUIRE(cudaMemset(with.x, 0, bytes));
         run_add(with.x, with.y, with.a);
     }},
    {"record_too_early", "race",
     [](machine& with) {
         REQUIRE(cudaEventRecord(with.done, with.a));
         run_make(with.x, with.a);
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
         run_add(with.x, with.y, with.b);
     }},
    {"rows_that_overlap", "race",
     [](machine& with) {
         REQUIRE(cudaMemcpy2DAsync(with.x, 128, with.y, 65, 65, 8, cudaMemcpyDeviceToDevice, with.a));
         REQUIRE(cudaMemcpy2DAsync(reinterpret_cast<char*>(with.x) + 64, 128, with.y, 64, 64, 8,
                                   cudaMemcpyDeviceToDevice, with.b));
     }},
    {"event_again_elsewhere", "event recorded again",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaEventRecord(with.done, with.a));
         REQUIRE(cudaEventRecord(with.done, with.blocking));
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
         run_add(with.x, with.y, with.b);
     }},
    {"wait_before_record", "wait without record",
     [](machine& with) {
         REQUIRE(cudaStreamWaitEvent(with.b, with.done, 0));
         REQUIRE(cudaEventRecord(with.done, with.a));
     }},
    {"free_on_another_stream", "use after free",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         with.order(with.a, with.b);
         run_make(z, with.b);
         REQUIRE(cudaFreeAsync(z, with.a));
     }},
    {"use_before_allocation", "race",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMallocAsync(&z, bytes, with.a));
         run_make(z, with.b);
         REQUIRE(cudaDeviceSynchronize());
         REQUIRE(cudaFreeAsync(z, with.a));
     }},
    {"fork_without_join", "dropped by capture",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
         with.order(with.a, with.b);
         run_make(with.x, with.b);
         static_cast<void>(cudaStreamEndCapture(with.a, &graph));
         static_cast<void>(cudaGetLastError());
     }},
    {"outside_the_capture", "outside capture",
     [](machine& with) {
         cudaGraph_t graph{};
         REQUIRE(cudaStreamBeginCapture(with.a, cudaStreamCaptureModeThreadLocal));
         run_make(with.x, with.a);
         run_make(with.y, with.b);
         REQUIRE(cudaStreamEndCapture(with.a, &graph));
         launch_captured(graph, with.a);
     }},
    {"branches_of_a_capture", "race", [](machine& with) { captured(with, false); }},
    {"nodes_without_an_edge", "race", [](machine& with) { built_graph(with, false); }},
    {"event_in_order", "clean",
     [](machine& with) {
         for (int i = 0; i < 3; ++i) {
             run_make(with.x, with.a);
             with.order(with.a, with.b);
             run_add(with.x, with.y, with.b);
             with.order(with.b, with.a);
         }
     }},
    {"default_stream_and_blocking", "clean",
     [](machine& with) {
         run_make(with.x, with.blocking);
         run_add(with.x, with.y, nullptr);
         run_make(with.x, with.blocking);
     }},
    {"free_waits", "clean",
     [](machine& with) {
         float* z{};
         REQUIRE(cudaMalloc(&z, bytes));
         run_make(z, with.a);
         REQUIRE(cudaFree(z));
     }},
    {"pageable_download_waits", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaMemcpyAsync(with.pageable.data(), with.x, bytes, cudaMemcpyDeviceToHost, with.a));
         run_make(with.x, with.b);
     }},
    {"synchronous_copies", "clean",
     [](machine& with) {
         REQUIRE(cudaMemcpy(with.x, with.pageable.data(), bytes, cudaMemcpyHostToDevice));
         run_add(with.x, with.y, nullptr);
         REQUIRE(cudaMemcpy(with.pageable.data(), with.y, bytes, cudaMemcpyDeviceToHost));
     }},
    {"query_until_done", "clean",
     [](machine& with) {
         run_make(with.x, with.a);
         REQUIRE(cudaEventRecord(with.done, with.a));
         while (cudaEventQuery(with.done) == cudaErrorNotReady) {
         }
         run_add(with.x, with.y, with.b);
     }},
    {"pool_in_order", "clean",
     [](machine& with) {
         for (int i = 0; i < 4; ++i) {
             float* z{};
             REQUIRE(cudaMallocAsync(&z, bytes, with.a));
             run_make(z, with.a);
             REQUIRE(cudaFreeAsync(z, with.a));
         }
     }},
    {"rows_side_by_side", "clean",
     [](machine& with) {
         REQUIRE(cudaMemcpy2DAsync(with.x, 128, with.y, 64, 64, 8, cudaMemcpyDeviceToDevice, with.a));
         REQUIRE(cudaMemcpy2DAsync(reinterpret_cast<char*>(with.x) + 64, 128, with.y, 64, 64, 8,
                                   cudaMemcpyDeviceToDevice, with.b));
     }},
    {"captured_in_order", "clean", [](machine& with) { captured(with, true); }},
    {"edge_between_nodes", "clean", [](machine& with) { built_graph(with, true); }},
    {"many_launches", "clean",
     [](machine& with) {
         for (int i = 0; i < 20'000; ++i) run_make(with.x, with.a);
     }},
};

}  // namespace

int main(int count, char** words) {
    if (count != 2) return 2;
    if (std::strcmp(words[1], "--list") == 0) {
        for (const program& each : programs) std::printf("%s\t%s\n", each.name, each.kind);
        return 0;
    }
    for (const program& each : programs) {
        if (std::strcmp(each.name, words[1]) != 0) continue;
        machine with;
        each.run(with);
        REQUIRE(cudaDeviceSynchronize());
        return 0;
    }
    return 2;
}
