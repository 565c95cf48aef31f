// SPDX-License-Identifier: Apache-2.0
// Plain CUDA programs, without Sluice, about which compute-sanitizer 2025.3.1 is wrong (H100 and H200, driver 580, CUDA
// 13.0, 2026-11-26). They do what tests of Sluice do that scripts/gpu_session leaves out under the tools, or whose
// reports it explains.
//
//     nvcc -std=c++20 -arch=sm_90 -rdc=true bench/probes/under_the_tools.cu -lcudadevrt -o under_the_tools
//     ./under_the_tools loop                                        # each prints "right" without the tool
//     compute-sanitizer --tool memcheck ./under_the_tools loop      # an illegal memory access that is not there
//     compute-sanitizer --tool racecheck ./under_the_tools threads  # hangs
//     for i in 1 2 3 4 5 6 7 8; do compute-sanitizer --tool memcheck ./under_the_tools nested & done; wait
//                                                                   # most of them: an illegal memory access
//     compute-sanitizer --tool memcheck ./under_the_tools meanwhile # the kernel never ends
//
//   loop      a cooperative kernel in the body of a graph's while loop
//   nested    a condition in the body of a graph's while loop
//   threads   four threads, each with a graph whose kernel launches a graph of the thread's own
//   clusters  a graph for launches by kernels, with a kernel in clusters, launched by the host and updated
//   once      bulk copies into the same shared memory, one after the other, counted by one barrier
//   renewed   the same with the barrier invalidated and initialised for each copy
//   tree      a sum over shared memory by half of the threads at a time, after a named barrier of one warp
//   late      a kernel that stays reads memory that was allocated after its launch
//   meanwhile other work on the GPU while a kernel stays there; prints each kind of work when it is over
//   polled    a warp polls a word in shared memory that another warp writes
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
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

__global__ void add_and_compare(int* x, int limit, int* is_below) { *is_below = ++*x < limit; }
__global__ void decide(const int* is_so, cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, *is_so); }
__global__ void compare(const int* x, int limit, cudaGraphConditionalHandle handle) {
    cudaGraphSetConditional(handle, *x < limit);
}

__global__ void add_one(int* x) { ++x[blockIdx.x * blockDim.x + threadIdx.x]; }

constexpr unsigned batch = 128;  // elements of a bulk copy

__device__ unsigned shared_address(const void* of) { return static_cast<unsigned>(__cvta_generic_to_shared(of)); }
__device__ void init(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Each round: one thread asks for the batch, all wait for its bytes, add up, and meet before the next round.
template <bool IsRenewed>
__global__ void add_batches(const unsigned* in, unsigned rounds, unsigned long long* sum) {
    __shared__ alignas(128) unsigned staged[batch];
    __shared__ alignas(8) unsigned long long state;
    const unsigned barrier = shared_address(&state);
    unsigned long long mine = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0 && (IsRenewed || round == 0)) init(barrier);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(batch * 4)
                         : "memory");
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    shared_address(staged)),
                "l"(in + round * batch), "n"(batch * 4), "r"(barrier)
                : "memory");
        }
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@done bra over;\n"
            "bra again;\n"
            "over:\n"
            "}\n" ::"r"(barrier),
            "r"(IsRenewed ? 0 : round % 2)
            : "memory");
        for (unsigned i = threadIdx.x; i < batch; i += blockDim.x) mine += staged[batch - 1 - i];
        __syncthreads();
        if (IsRenewed && threadIdx.x == 0) {
            asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
        }
    }
    atomicAdd(sum, mine);
}

struct pair {
    unsigned element;
    unsigned long long at;
};
__global__ void add_in_halves(const unsigned* in, unsigned size, unsigned long long* sum) {
    extern __shared__ __align__(128) unsigned char memory[];
    pair* const values = reinterpret_cast<pair*>(memory);
    pair mine{0, 0};
    if (threadIdx.x / 32 == 1) {
        for (unsigned i = blockIdx.x * 32 + threadIdx.x % 32; i < size; i += gridDim.x * 32) {
            mine = {mine.element + in[i], mine.at + 1};
        }
        __syncwarp();
        asm volatile("barrier.cta.sync 1, 32;" ::: "memory");
    }
    __syncthreads();
    values[threadIdx.x] = mine;
    for (unsigned left = blockDim.x; left > 1;) {
        __syncthreads();
        const unsigned half = (left + 1) / 2;
        if (threadIdx.x < left / 2) {
            const pair other = values[threadIdx.x + half];
            values[threadIdx.x] = {values[threadIdx.x].element + other.element, values[threadIdx.x].at + other.at};
        }
        left = half;
    }
    if (threadIdx.x == 0) atomicAdd(sum, values[0].element + values[0].at);
}

// Reads *address when *asked is not 0, and answers.
__global__ void stay(const volatile unsigned long long* asked, volatile unsigned* answer) {
    unsigned long long address = 0;
    while ((address = *asked) == 0) __nanosleep(1000);
    *answer = *reinterpret_cast<const volatile unsigned*>(address);
}

__global__ void poll(unsigned* result) {
    __shared__ unsigned word;
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    volatile unsigned* const seen = &word;
    if (threadIdx.x == 32) *seen = 7;
    if (threadIdx.x < 32) {
        while (*seen == 0) {
        }
        if (threadIdx.x == 0) *result = *seen;
    }
}

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

cudaGraphNode_t add_kernel(cudaGraph_t to, void* function, unsigned blocks, unsigned threads, void** arguments,
                           const cudaGraphNode_t* after = nullptr) {
    cudaKernelNodeParams params{};
    params.func = function;
    params.gridDim = dim3(blocks);
    params.blockDim = dim3(threads);
    params.kernelParams = arguments;
    cudaGraphNode_t made{};
    CHECK(cudaGraphAddKernelNode(&made, to, after, after != nullptr, &params));
    return made;
}

struct conditional {
    cudaGraphNode_t node;
    cudaGraph_t body;
};
conditional add_conditional(cudaGraph_t to, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                            const cudaGraphNode_t* after = nullptr) {
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
    cudaGraphNode_t made{};
    CHECK(cudaGraphAddNode(&made, to, after, nullptr, after != nullptr, &params));
    return {made, params.conditional.phGraph_out[0]};
}

bool loop() {
    int* x = numbers(8);
    int limit = 50;
    cudaGraph_t graph{};
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle again{};
    CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
    const cudaGraph_t body = add_conditional(graph, again, cudaGraphCondTypeWhile).body;
    void* arguments[] = {&x, &limit, &again};
    const cudaGraphNode_t kernel = add_kernel(body, reinterpret_cast<void*>(&counts_together), 8, 32, arguments);
    cudaLaunchAttributeValue together{};
    together.cooperative = 1;
    CHECK(cudaGraphKernelNodeSetAttribute(kernel, cudaLaunchAttributeCooperative, &together));
    cudaGraphExec_t exec{};
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaDeviceSynchronize());
    return last_of(x, 8) == 52;
}

// while (x < 6) if (++x < 4) ++y;
bool nested() {
    int* memory = numbers(3);
    int *x = memory, *y = memory + 1, *is_below = memory + 2, six = 6, four = 4;
    for (int round = 0; round < 150; ++round) {
        cudaGraph_t graph{};
        CHECK(cudaGraphCreate(&graph, 0));
        cudaGraphConditionalHandle again{}, runs{};
        CHECK(cudaGraphConditionalHandleCreate(&again, graph, 0, 0));
        void* outer[] = {&x, &six, &again};
        const cudaGraphNode_t first = add_kernel(graph, reinterpret_cast<void*>(&compare), 1, 1, outer);
        const cudaGraph_t body = add_conditional(graph, again, cudaGraphCondTypeWhile, &first).body;
        CHECK(cudaGraphConditionalHandleCreate(&runs, body, 0, 0));
        void* adds[] = {&x, &four, &is_below};
        const cudaGraphNode_t added = add_kernel(body, reinterpret_cast<void*>(&add_and_compare), 1, 1, adds);
        void* decides[] = {&is_below, &runs};
        const cudaGraphNode_t decided = add_kernel(body, reinterpret_cast<void*>(&decide), 1, 1, decides, &added);
        const conditional inner = add_conditional(body, runs, cudaGraphCondTypeIf, &decided);
        void* in_body[] = {&y};
        add_kernel(inner.body, reinterpret_cast<void*>(&add_one), 1, 1, in_body);
        add_kernel(body, reinterpret_cast<void*>(&compare), 1, 1, outer, &inner.node);
        cudaGraphExec_t exec{};
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (int begin = 0; begin < 6; ++begin) {
            const int before[3] = {begin, 0, 0};
            CHECK(cudaMemcpy(memory, before, sizeof(before), cudaMemcpyHostToDevice));
            CHECK(cudaGraphLaunch(exec, nullptr));
            CHECK(cudaDeviceSynchronize());
            if (last_of(memory, 1) != 6 || last_of(memory, 2) != (begin < 3 ? 3 - begin : 0)) return false;
        }
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    return true;
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

// The update asks for other clusters. The driver refuses it, and the graph stays as it was.
bool clusters() {
    int* x = numbers(8);
    void* arguments[] = {&x};
    const auto in_clusters_of = [&](unsigned blocks) {
        cudaGraph_t graph{};
        CHECK(cudaGraphCreate(&graph, 0));
        const cudaGraphNode_t kernel = add_kernel(graph, reinterpret_cast<void*>(&add_one), 4, 2, arguments);
        cudaLaunchAttributeValue size{};
        size.clusterDim.x = blocks;
        size.clusterDim.y = size.clusterDim.z = 1;
        CHECK(cudaGraphKernelNodeSetAttribute(kernel, cudaLaunchAttributeClusterDimension, &size));
        return graph;
    };
    cudaStream_t stream{};
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraphExec_t exec{};
    CHECK(cudaGraphInstantiate(&exec, in_clusters_of(2), cudaGraphInstantiateFlagDeviceLaunch));
    CHECK(cudaGraphUpload(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 2; ++i) {
        cudaGraphExecUpdateResultInfo result{};
        std::printf("update: %s\n", cudaGetErrorName(cudaGraphExecUpdate(exec, in_clusters_of(4), &result)));
        static_cast<void>(cudaGetLastError());
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    return last_of(x, 8) == 2;
}

// 0, 1, 2 ... on the device.
unsigned* counting(unsigned count) {
    std::vector<unsigned> all(count);
    std::iota(all.begin(), all.end(), 0u);
    unsigned* made = nullptr;
    CHECK(cudaMalloc(&made, sizeof(unsigned) * count));
    CHECK(cudaMemcpy(made, all.data(), sizeof(unsigned) * count, cudaMemcpyHostToDevice));
    return made;
}

template <bool IsRenewed>
bool batches() {
    constexpr unsigned rounds = 100, count = rounds * batch;
    unsigned long long* sum = nullptr;
    CHECK(cudaMalloc(&sum, sizeof(*sum)));
    CHECK(cudaMemset(sum, 0, sizeof(*sum)));
    add_batches<IsRenewed><<<1, 128>>>(counting(count), rounds, sum);
    unsigned long long read = 0;
    CHECK(cudaMemcpy(&read, sum, sizeof(read), cudaMemcpyDeviceToHost));
    return read == 1ull * count * (count - 1) / 2;
}

bool tree() {
    constexpr unsigned count = 1000 * 128;
    const unsigned* const in = counting(count);
    unsigned long long* sum = nullptr;
    CHECK(cudaMalloc(&sum, sizeof(*sum)));
    for (int round = 0; round < 150; ++round) {
        CHECK(cudaMemset(sum, 0, sizeof(*sum)));
        add_in_halves<<<300, 128, 128 * sizeof(pair)>>>(in, count, sum);
        unsigned long long read = 0;
        CHECK(cudaMemcpy(&read, sum, sizeof(read), cudaMemcpyDeviceToHost));
        // Each block's sum of elements wraps at 2^32.
        if (static_cast<unsigned>(read) != static_cast<unsigned>(1ull * count * (count - 1) / 2 + count)) return false;
    }
    return true;
}

bool late() {
    unsigned long long* asked = nullptr;  // then the answer
    CHECK(cudaHostAlloc(&asked, 2 * sizeof(*asked), cudaHostAllocMapped));
    asked[0] = asked[1] = 0;
    cudaStream_t staying{}, other{};
    CHECK(cudaStreamCreateWithFlags(&staying, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    stay<<<1, 1, 0, staying>>>(asked, reinterpret_cast<unsigned*>(asked + 1));
    CHECK(cudaGetLastError());
    unsigned* made = nullptr;
    CHECK(cudaMallocAsync(&made, sizeof(*made), other));
    CHECK(cudaMemsetAsync(made, 1, sizeof(*made), other));
    CHECK(cudaStreamSynchronize(other));
    *static_cast<volatile unsigned long long*>(asked) = reinterpret_cast<unsigned long long>(made);
    CHECK(cudaStreamSynchronize(staying));
    return *reinterpret_cast<volatile unsigned*>(asked + 1) == 0x01010101;
}

bool meanwhile() {
    int* x = numbers(1);
    unsigned long long* asked = nullptr;
    CHECK(cudaHostAlloc(&asked, 2 * sizeof(*asked), cudaHostAllocMapped));
    asked[0] = asked[1] = 0;
    cudaStream_t staying{}, other{}, later{};
    CHECK(cudaStreamCreateWithFlags(&staying, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    add_one<<<1, 1, 0, other>>>(x);
    CHECK(cudaStreamSynchronize(other));
    stay<<<1, 1, 0, staying>>>(asked, reinterpret_cast<unsigned*>(asked + 1));
    CHECK(cudaGetLastError());
    const auto is_over = [&](const char* what, cudaStream_t on) {
        CHECK(cudaStreamSynchronize(on));
        std::printf("%s\n", what);
        std::fflush(stdout);
    };
    int host = 0;
    CHECK(cudaMemcpyAsync(&host, x, sizeof(host), cudaMemcpyDeviceToHost, other));
    is_over("a copy", other);
    CHECK(cudaLaunchHostFunc(other, [](void* at) { ++*static_cast<int*>(at); }, &host));
    is_over("a host function", other);
    CHECK(cudaStreamCreateWithFlags(&later, cudaStreamNonBlocking));
    CHECK(cudaLaunchHostFunc(later, [](void* at) { ++*static_cast<int*>(at); }, &host));
    is_over("a host function on a new stream", later);
    add_one<<<1, 1, 0, other>>>(x);
    CHECK(cudaGetLastError());
    is_over("a kernel", other);
    *static_cast<volatile unsigned long long*>(asked) = reinterpret_cast<unsigned long long>(x);
    CHECK(cudaStreamSynchronize(staying));
    return host == 3 && last_of(x, 1) == 2;
}

bool polled() {
    unsigned* result = nullptr;
    CHECK(cudaMallocManaged(&result, sizeof(*result)));
    poll<<<1, 64>>>(result);
    CHECK(cudaDeviceSynchronize());
    return *result == 7;
}

}  // namespace

int main(int count, char** arguments) {
    const char* const which = count == 2 ? arguments[1] : "";
    bool is_right = false;
    if (std::strcmp(which, "loop") == 0) {
        is_right = loop();
    } else if (std::strcmp(which, "nested") == 0) {
        is_right = nested();
    } else if (std::strcmp(which, "threads") == 0) {
        is_right = threads();
    } else if (std::strcmp(which, "clusters") == 0) {
        is_right = clusters();
    } else if (std::strcmp(which, "once") == 0) {
        is_right = batches<false>();
    } else if (std::strcmp(which, "renewed") == 0) {
        is_right = batches<true>();
    } else if (std::strcmp(which, "tree") == 0) {
        is_right = tree();
    } else if (std::strcmp(which, "late") == 0) {
        is_right = late();
    } else if (std::strcmp(which, "meanwhile") == 0) {
        is_right = meanwhile();
    } else if (std::strcmp(which, "polled") == 0) {
        is_right = polled();
    } else {
        std::fprintf(stderr,
                     "usage: under_the_tools loop|nested|threads|clusters|once|renewed|tree|late|meanwhile|polled\n");
        return 2;
    }
    std::printf("%s\n", is_right ? "right" : "wrong");
    return is_right ? 0 : 1;
}
