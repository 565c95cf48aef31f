// SPDX-License-Identifier: Apache-2.0
// Two plain CUDA programs, without Sluice, that compute-sanitizer 2025.3.1 does not get through (H100, driver 580, CUDA
// 13.0, 2026-11-25). They do what tests of Sluice do that scripts/gpu_session leaves out under the tools.
//
//     nvcc -std=c++20 -arch=sm_90 -rdc=true bench/probes/under_the_tools.cu -lcudadevrt -o under_the_tools
//     ./under_the_tools loop                                        # each prints "right" without the tool
//     compute-sanitizer --tool memcheck ./under_the_tools loop      # an illegal memory access that is not there
//     compute-sanitizer --tool racecheck ./under_the_tools threads  # hangs
//
//   loop     a cooperative kernel in the body of a graph's while loop
//   threads  four threads, each with a graph whose kernel launches a graph of the thread's own
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

#define CHECK(call)                                                                      \
    do {                                                                                 \
        const cudaError_t code = (call);                                                 \
        if (code != cudaSuccess) {                                                       \
            std::printf("%s, line %d: %s\n", #call, __LINE__, cudaGetErrorString(code)); \
            std::fflush(stdout);                                                         \
            std::_Exit(1);                                                               \
        }                                                                                \
    } while (false)

__global__ void counts_together(int* x, int limit, cudaGraphConditionalHandle again) {
    const auto grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0) ++x[blockIdx.x];
    grid.sync();
    if (grid.thread_rank() == 0) cudaGraphSetConditional(again, x[gridDim.x - 1] < limit ? 1 : 0);
}

__global__ void add_one(int* x) { ++x[blockIdx.x * blockDim.x + threadIdx.x]; }

__global__ void launch_another(cudaGraphExec_t* other) { cudaGraphLaunch(*other, cudaStreamGraphFireAndForget); }

int* numbers(int count) {
    int* made = nullptr;
    CHECK(cudaMalloc(&made, sizeof(int) * static_cast<std::size_t>(count)));
    CHECK(cudaMemset(made, 0, sizeof(int) * static_cast<std::size_t>(count)));
    CHECK(cudaDeviceSynchronize());
    return made;
}
int last_of(const int* all, int count) {
    int read = 0;
    CHECK(cudaMemcpy(&read, all + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
    return read;
}

cudaGraphNode_t add_kernel(cudaGraph_t to, void* function, unsigned blocks, unsigned threads, void** arguments) {
    cudaKernelNodeParams params{};
    params.func = function;
    params.gridDim = dim3(blocks);
    params.blockDim = dim3(threads);
    params.kernelParams = arguments;
    cudaGraphNode_t made{};
    CHECK(cudaGraphAddKernelNode(&made, to, nullptr, 0, &params));
    return made;
}

bool loop() {
    int* x = numbers(8);
    int limit = 50;
    cudaGraph_t graph{};
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle again{};
    CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams loop{};
    loop.type = cudaGraphNodeTypeConditional;
    loop.conditional.handle = again;
    loop.conditional.type = cudaGraphCondTypeWhile;
    loop.conditional.size = 1;
    cudaGraphNode_t node{};
    CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &loop));
    void* arguments[] = {&x, &limit, &again};
    const cudaGraphNode_t kernel =
        add_kernel(loop.conditional.phGraph_out[0], reinterpret_cast<void*>(&counts_together), 8, 32, arguments);
    cudaLaunchAttributeValue together{};
    together.cooperative = 1;
    CHECK(cudaGraphKernelNodeSetAttribute(kernel, cudaLaunchAttributeCooperative, &together));
    cudaGraphExec_t exec{};
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaDeviceSynchronize());
    return last_of(x, 8) == 52;
}

bool threads() {
    constexpr int count = 4, rounds = 200;
    std::vector<int> results(count);
    const auto one = [&](int which) {
        int* x = numbers(1);
        cudaStream_t stream{};
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        cudaGraph_t inner{}, outer{};
        CHECK(cudaGraphCreate(&inner, 0));
        void* inner_arguments[] = {&x};
        add_kernel(inner, reinterpret_cast<void*>(&add_one), 1, 1, inner_arguments);
        cudaGraphExec_t launched{}, exec{};
        CHECK(cudaGraphInstantiate(&launched, inner, cudaGraphInstantiateFlagDeviceLaunch));
        CHECK(cudaGraphUpload(launched, stream));
        cudaGraphExec_t* handle = nullptr;
        CHECK(cudaMalloc(&handle, sizeof(launched)));
        CHECK(cudaMemcpy(handle, &launched, sizeof(launched), cudaMemcpyHostToDevice));
        CHECK(cudaGraphCreate(&outer, 0));
        void* outer_arguments[] = {&handle};
        add_kernel(outer, reinterpret_cast<void*>(&launch_another), 1, 1, outer_arguments);
        CHECK(cudaGraphInstantiate(&exec, outer, 0));
        for (int i = 0; i < rounds; ++i) {
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
        }
        results[static_cast<std::size_t>(which)] = last_of(x, 1);
    };
    std::vector<std::thread> all;
    for (int i = 0; i < count; ++i) all.emplace_back(one, i);
    for (std::thread& each : all) each.join();
    for (const int each : results)
        if (each != rounds) return false;
    return true;
}

}  // namespace

int main(int count, char** arguments) {
    const char* const which = count == 2 ? arguments[1] : "";
    bool is_right = false;
    if (std::strcmp(which, "loop") == 0) {
        is_right = loop();
    } else if (std::strcmp(which, "threads") == 0) {
        is_right = threads();
    } else {
        std::fprintf(stderr, "usage: under_the_tools loop|threads\n");
        return 2;
    }
    std::printf("%s\n", is_right ? "right" : "wrong");
    return is_right ? 0 : 1;
}
