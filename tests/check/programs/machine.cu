// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

namespace planted {
namespace {

__global__ void make(float* to) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < elements) to[at] = static_cast<float>(at);
}

__global__ void add(const float* from, float* to) {
    const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < elements) to[at] += from[at];
}

extern "C" __global__ void untyped(float* to) { to[threadIdx.x] = 1; }

struct holder {
    float* to;
    int value;
};

__global__ void in_struct(holder with) { with.to[threadIdx.x] = static_cast<float>(with.value); }

__global__ void spin(float* to) {
    unsigned long long begin = 0, now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < 10'000);
    *to = static_cast<float>(now - begin);
}

__global__ void append(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x] + to[threadIdx.x] + 1; }

}  // namespace

void run_make(float* to, cudaStream_t on) { make<<<elements / 256, 256, 0, on>>>(to); }
void run_add(const float* from, float* to, cudaStream_t on) { add<<<elements / 256, 256, 0, on>>>(from, to); }
void run_untyped(float* to, cudaStream_t on) { untyped<<<1, 32, 0, on>>>(to); }
void run_in_struct(float* to, cudaStream_t on) { in_struct<<<1, 32, 0, on>>>({to, 1}); }
void run_of_10_us(float* to, cudaStream_t on) { spin<<<1, 1, 0, on>>>(to); }
void run_append(const float* from, float* to, cudaStream_t on) { append<<<1, 256, 0, on>>>(from, to); }

machine::machine() {
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

void batched_upload(machine& with, cudaStream_t on) {
    void* targets[] = {with.x, with.y};
    void* sources[] = {with.pinned, with.pinned};
    const std::size_t sizes[] = {bytes, bytes};
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
#if CUDART_VERSION >= 13000
    REQUIRE(cudaMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &first, 1, on));
#else
    std::size_t failed = 0;
    std::size_t copied[] = {bytes, bytes};
    static_cast<void>(sizes);
    REQUIRE(cudaMemcpyBatchAsync(targets, sources, copied, 2, &attributes, &first, 1, &failed, on));
#endif
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec{};
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

void launch_twice(cudaGraph_t graph, cudaStream_t on) {
    cudaGraphExec_t exec = instantiate(graph);
    REQUIRE(cudaGraphLaunch(exec, on));
    REQUIRE(cudaGraphLaunch(exec, on));
    REQUIRE(cudaStreamSynchronize(on));
    REQUIRE(cudaGraphExecDestroy(exec));
    REQUIRE(cudaGraphDestroy(graph));
}

cudaGraph_t build_graph(const machine& with, bool has_edge) {
    cudaGraph_t graph{};
    REQUIRE(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t first{}, second{};
    float *x = with.x, *y = with.y;
    void* make_arguments[] = {&x};
    cudaKernelNodeParams node{};
    node.func = reinterpret_cast<void*>(make);
    node.gridDim = dim3(elements / 256);
    node.blockDim = dim3(256);
    node.kernelParams = make_arguments;
    REQUIRE(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &node));
    void* add_arguments[] = {&x, &y};
    node.func = reinterpret_cast<void*>(add);
    node.kernelParams = add_arguments;
    REQUIRE(cudaGraphAddKernelNode(&second, graph, has_edge ? &first : nullptr, has_edge ? 1 : 0, &node));
    return graph;
}

cudaGraphNode_t add_append_node(cudaGraph_t to, const std::vector<cudaGraphNode_t>& after, const float* from,
                                float* into) {
    void* arguments[] = {&from, &into};
    cudaKernelNodeParams node{};
    node.func = reinterpret_cast<void*>(append);
    node.gridDim = dim3(1);
    node.blockDim = dim3(256);
    node.kernelParams = arguments;
    cudaGraphNode_t made{};
    REQUIRE(cudaGraphAddKernelNode(&made, to, after.data(), after.size(), &node));
    return made;
}

}  // namespace planted
