// SPDX-License-Identifier: Apache-2.0
// Two CUDA graphs on two streams, each a loop of three rounds, without Sluice: shows a defect of the driver. With one
// kernel in the loops' bodies the device faults, often within a hundred launches (cudaErrorLaunchFailure; the system's
// log has Xid 13, SKEDCHECK22_INVALIDATE_ACTIVE_QMD: the loop repeats while its kernel's descriptor is still active).
// With a second kernel after the first it never did. Seen on H200s, driver 580.159.04, CUDA 13.0. Two such loops in one
// graph fault, too. cuda_graph_program.cpp adds a second kernel to such bodies.
//
//     probe_one_kernel_loops 1|2 [SECONDS]     kernels in a body; exit code 1: the device faulted
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int blocks = 4;
constexpr int threads = 256;
long launches = 0;

void check(cudaError_t code) {
    if (code == cudaSuccess) return;
    std::printf("launch %ld: %s\n", launches, cudaGetErrorName(code));
    std::exit(1);
}

__global__ void begin(int* rounds) { *rounds = 3; }
__global__ void count(int* rounds, cudaGraphConditionalHandle again) {
    if (blockIdx.x == 0 && threadIdx.x == 0) cudaGraphSetConditional(again, --*rounds > 0 ? 1 : 0);
}
__global__ void nothing() {}

cudaGraphNode_t add(cudaGraph_t to, const cudaGraphNode_t* after, const void* kernel, int grid, void** arguments) {
    cudaKernelNodeParams what{};
    what.func = const_cast<void*>(kernel);
    what.gridDim = dim3(grid);
    what.blockDim = dim3(grid == 1 ? 1 : threads);
    what.kernelParams = arguments;
    cudaGraphNode_t made = nullptr;
    check(cudaGraphAddKernelNode(&made, to, after, after != nullptr ? 1 : 0, &what));
    return made;
}

struct loop {
    cudaStream_t stream = nullptr;
    cudaGraphExec_t exec = nullptr;

    explicit loop(int kernels) {
        int* rounds = nullptr;
        check(cudaMalloc(&rounds, sizeof(int)));
        cudaGraph_t graph = nullptr;
        check(cudaGraphCreate(&graph, 0));
        cudaGraphConditionalHandle again = 0;
        check(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
        void* arguments[] = {&rounds, &again};
        const cudaGraphNode_t begun = add(graph, nullptr, reinterpret_cast<const void*>(&begin), 1, arguments);
        cudaGraphNodeParams what{};
        what.type = cudaGraphNodeTypeConditional;
        what.conditional.handle = again;
        what.conditional.type = cudaGraphCondTypeWhile;
        what.conditional.size = 1;
        cudaGraphNode_t node = nullptr;
        check(cudaGraphAddNode(&node, graph, &begun, nullptr, 1, &what));
        cudaGraph_t const body = what.conditional.phGraph_out[0];
        const cudaGraphNode_t counted = add(body, nullptr, reinterpret_cast<const void*>(&count), blocks, arguments);
        if (kernels > 1) add(body, &counted, reinterpret_cast<const void*>(&nothing), 1, nullptr);
        check(cudaGraphInstantiate(&exec, graph, 0));
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    void launch() const {
        check(cudaGraphLaunch(exec, stream));
        ++launches;
    }
};

}  // namespace

int main(int argc, char** argv) {
    const int kernels = argc > 1 ? std::atoi(argv[1]) : 1;
    const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
    const loop first(kernels), second(kernels);
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < until) {
        for (int i = 0; i < 4; ++i) {
            first.launch();
            second.launch();
        }
        check(cudaStreamSynchronize(first.stream));
        check(cudaStreamSynchronize(second.stream));
    }
    std::printf("%ld launches without a fault\n", launches);
}
