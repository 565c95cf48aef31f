// SPDX-License-Identifier: Apache-2.0
// Compiled graphs compared with CUDA graphs built by hand, in the same run: replaying N dependent launches, with and
// without new inputs; building the graphs; a loop that ends on the device; programmatic dependent launches.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/result.hpp"
#include "support/scale_chain.cuh"
#include "support/timing.hpp"

using namespace sluice;
using bench::chain;
using bench::check;
using bench::elements;

using bench::scale_by_hand;

namespace {

struct destroy_exec {
    void operator()(cudaGraphExec_t graph) const noexcept { static_cast<void>(cudaGraphExecDestroy(graph)); }
};
struct destroy_graph {
    void operator()(cudaGraph_t graph) const noexcept { static_cast<void>(cudaGraphDestroy(graph)); }
};
using exec_by_hand = std::unique_ptr<CUgraphExec_st, destroy_exec>;
using graph_by_hand = std::unique_ptr<CUgraph_st, destroy_graph>;

// N explicit kernel nodes, one after another.
class chain_by_hand {
public:
    chain_by_hand(std::size_t n, __half* x) {
        cudaGraph_t made = nullptr;
        check(cudaGraphCreate(&made, 0));
        graph_.reset(made);
        for (std::size_t i = 0; i < n; ++i) {
            arguments all(x);
            const cudaKernelNodeParams what = all.parameters();
            cudaGraphNode_t node = nullptr;
            check(cudaGraphAddKernelNode(&node, made, i == 0 ? nullptr : &nodes_.back(), i == 0 ? 0 : 1, &what));
            nodes_.push_back(node);
        }
    }
    void instantiate() {
        cudaGraphExec_t made = nullptr;
        check(cudaGraphInstantiate(&made, graph_.get(), 0));
        exec_.reset(made);
    }
    void set(__half* x) {
        for (const cudaGraphNode_t node : nodes_) {
            arguments all(x);
            const cudaKernelNodeParams what = all.parameters();
            check(cudaGraphExecKernelNodeSetParams(exec_.get(), node, &what));
        }
    }
    void launch(cudaStream_t on) { check(cudaGraphLaunch(exec_.get(), on)); }

private:
    struct arguments {
        explicit arguments(__half* to) : x(to) {}
        cudaKernelNodeParams parameters() {
            cudaKernelNodeParams made{};
            made.func = reinterpret_cast<void*>(&scale_by_hand);
            made.gridDim = dim3(elements / 256);
            made.blockDim = dim3(256);
            made.kernelParams = list;
            return made;
        }
        __half* x;
        __half g = __float2half(1.0f);
        std::size_t size = elements;
        void* list[3] = {&x, &g, &size};
    };

    graph_by_hand graph_;
    exec_by_hand exec_;
    std::vector<cudaGraphNode_t> nodes_;
};

std::string size_of(std::size_t n) { return "{\"n\": " + std::to_string(n) + "}"; }

void replay(device& gpu, const std::string& name) {
    single_stream policy(gpu);
    const auto stream = bench::make_stream();
    for (const std::size_t n : {1, 10, 100, 1000}) {
        const std::size_t rounds = n == 1000 ? 500 : 3000;
        const auto fast =
            compile(gpu, [n](tensor<__half> x) { return chain(std::move(x), n); }, device_input<__half>({elements}));
        tensor<__half> x = sync(zeros<__half>({elements}), policy);
        tensor<__half> y = sync(zeros<__half>({elements}), policy);
        // Both use the same memory, because its location makes a difference of 0.1 us per kernel.
        __half* const first = x.device_data();
        __half* const second = y.device_data();
        chain_by_hand by_hand(n, first);
        by_hand.instantiate();
        const auto same = bench::medians({[&] { x = sync(fast(std::move(x)), policy); },
                                          [&] {
                                              by_hand.launch(stream.get());
                                              check(cudaStreamSynchronize(stream.get()));
                                          }},
                                         rounds);
        bench::print({"graph_replay", size_of(n), same[0], "us", same[1], name});
        bool turn = false;
        const auto changed = bench::medians({[&] {
                                                 x = sync(fast(std::move(x)), policy);
                                                 std::swap(x, y);
                                             },
                                             [&] {
                                                 turn = !turn;
                                                 by_hand.set(turn ? second : first);
                                                 by_hand.launch(stream.get());
                                                 check(cudaStreamSynchronize(stream.get()));
                                             }},
                                            rounds);
        bench::print({"graph_replay_new_inputs", size_of(n), changed[0], "us", changed[1], name});
    }
}

void build(device& gpu, const std::string& name) {
    single_stream policy(gpu);
    constexpr std::size_t n = 1000;
    const auto x = bench::make_device<__half>(elements);
    const auto times = bench::medians(
        {[&] {
             static_cast<void>(compile(
                 gpu, [](tensor<__half> y) { return chain(std::move(y), n); }, device_input<__half>({elements})));
         },
         [&] {
             chain_by_hand by_hand(n, x.get());
             by_hand.instantiate();
         }},
        100, 5);
    bench::print({"graph_build", size_of(n), times[0], "us", times[1], name});
}

// A loop of 1000 rounds of one small kernel, which counts them.
constexpr int loop_rounds = 1000;

struct count_down {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> left, loop_condition again) const {
        int* const element = left.at(at);
        if (element == nullptr) return;
        --*element;
        if (at.value() == 0) again.set(*element > 0);
    }
};
struct refill {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> left) const {
        if (int* const element = left.at(at)) *element = loop_rounds;
    }
};
__global__ void count_down_by_hand(int* left, cudaGraphConditionalHandle again) {
    --left[threadIdx.x];
    if (threadIdx.x == 0) cudaGraphSetConditional(again, left[0] > 0 ? 1 : 0);
}
__global__ void count_down_plain(int* left) { --left[threadIdx.x]; }
// Reports to the host, which polls pinned memory.
__global__ void count_down_and_report(int* left, volatile int* told) {
    --left[threadIdx.x];
    if (threadIdx.x == 0) *told = left[0];
}
__global__ void refill_by_hand(int* left) { left[threadIdx.x] = loop_rounds; }

void loop(device& gpu, const std::string& name) {
    constexpr std::size_t size = 32;
    single_stream policy(gpu);
    const auto fast = compile(
        gpu,
        [](tensor<int> x) {
            return launch(refill{}, each_of(x), std::move(x)).and_then([](auto full) {
                return do_while(
                    [](loop_flag again, tensor<int> now) {
                        auto range = each_of(now);
                        return launch(count_down{}, range, std::move(now), again);
                    },
                    std::move(full));
            });
        },
        device_input<int>({size}));
    tensor<int> x = sync(zeros<int>({size}), policy);

    const auto stream = bench::make_stream();
    const auto left = bench::make_device<int>(size);
    cudaGraph_t made = nullptr;
    check(cudaGraphCreate(&made, 0));
    const graph_by_hand graph(made);
    cudaGraphConditionalHandle handle = 0;
    check(cudaGraphConditionalHandleCreate(&handle, made, 1, cudaGraphCondAssignDefault));
    int* address = left.get();
    void* refill_arguments[] = {&address};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(&refill_by_hand);
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(size);
    kernel.kernelParams = refill_arguments;
    cudaGraphNode_t begin = nullptr;
    check(cudaGraphAddKernelNode(&begin, made, nullptr, 0, &kernel));
    cudaGraphNodeParams conditional{};
    conditional.type = cudaGraphNodeTypeConditional;
    conditional.conditional.handle = handle;
    conditional.conditional.type = cudaGraphCondTypeWhile;
    conditional.conditional.size = 1;
    cudaGraphNode_t again = nullptr;
    check(cudaGraphAddNode(&again, made, &begin, nullptr, 1, &conditional));
    void* body_arguments[] = {&address, &handle};
    kernel.func = reinterpret_cast<void*>(&count_down_by_hand);
    kernel.kernelParams = body_arguments;
    cudaGraphNode_t body = nullptr;
    check(cudaGraphAddKernelNode(&body, conditional.conditional.phGraph_out[0], nullptr, 0, &kernel));
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, made, 0));
    const exec_by_hand whole(exec);
    const auto asked = bench::make_pinned<int>(1);
    const auto times = bench::medians(
        {[&] { x = sync(fast(std::move(x)), policy); },
         [&] {
             check(cudaGraphLaunch(whole.get(), stream.get()));
             check(cudaStreamSynchronize(stream.get()));
         },
         [&] {
             refill_by_hand<<<1, size, 0, stream.get()>>>(left.get());
             do {
                 count_down_plain<<<1, size, 0, stream.get()>>>(left.get());
                 check(cudaMemcpyAsync(asked.get(), left.get(), sizeof(int), cudaMemcpyDeviceToHost, stream.get()));
                 check(cudaStreamSynchronize(stream.get()));
             } while (asked[0] > 0);
         },
         [&] {
             volatile int* const told = asked.get();
             refill_by_hand<<<1, size, 0, stream.get()>>>(left.get());
             for (int expected = loop_rounds - 1; expected >= 0; --expected) {
                 count_down_and_report<<<1, size, 0, stream.get()>>>(left.get(), asked.get());
                 while (*told != expected) {
                 }
             }
             check(cudaStreamSynchronize(stream.get()));
         }},
        30, 3);
    if (sync(download(std::move(x)), policy)[0] != 0) throw std::runtime_error("the loop did not end where it should");
    bench::print({"device_loop", "{\"rounds\": 1000, \"baseline\": \"by hand, on the device\"}", times[0], "us",
                  times[1], name});
    bench::print({"device_loop", "{\"rounds\": 1000, \"baseline\": \"by hand, asking the host\"}", times[0], "us",
                  times[2], name});
    bench::print({"device_loop", "{\"rounds\": 1000, \"baseline\": \"by hand, the host looks at pinned memory\"}",
                  times[0], "us", times[3], name});
}

// The same loop without a condition node: the graph launches itself.
struct count_down_and_relaunch {
    SLUICE_KERNEL void operator()(index_1d at, self_launcher self, disjoint_view<int> left) const {
        int* const element = left.at(at);
        if (element != nullptr && --*element > 0 && at.value() == 0) static_cast<void>(self.tail());
    }
};
__global__ void count_down_and_relaunch_by_hand(int* left) {
    if (--left[threadIdx.x] > 0 && threadIdx.x == 0)
        cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

void relaunch(device& gpu, const std::string& name) {
    constexpr std::size_t size = 32;
    single_stream policy(gpu);
    const auto fast = launchable(
        gpu,
        [](self_launcher self, tensor<int> left) {
            auto range = each_of(left);
            return launch(count_down_and_relaunch{}, range, self, std::move(left));
        },
        device_input<int>({size}));
    const auto full = sync(share(upload(std::vector<int>(size, loop_rounds))), policy);

    const auto stream = bench::make_stream();
    const auto left = bench::make_device<int>(size);
    cudaGraph_t made = nullptr;
    check(cudaGraphCreate(&made, 0));
    const graph_by_hand graph(made);
    int* address = left.get();
    void* arguments[] = {&address};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(&count_down_and_relaunch_by_hand);
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(size);
    kernel.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddKernelNode(&node, made, nullptr, 0, &kernel));
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, made, cudaGraphInstantiateFlagDeviceLaunch));
    const exec_by_hand whole(exec);
    tensor<int> x;
    const auto times = bench::medians({[&] { x = sync(copy(full).and_then(fast), policy); },
                                       [&] {
                                           refill_by_hand<<<1, size, 0, stream.get()>>>(left.get());
                                           check(cudaGraphLaunch(whole.get(), stream.get()));
                                           check(cudaStreamSynchronize(stream.get()));
                                       }},
                                      30, 3);
    if (sync(download(std::move(x)), policy)[0] != 0) throw std::runtime_error("the loop did not end where it should");
    bench::print({"device_relaunch", "{\"rounds\": 1000, \"baseline\": \"by hand\"}", times[0], "us", times[1], name});
}

// A chain of kernels whose preamble does not depend on the previous kernel.
struct early_scale {
    SLUICE_KERNEL void operator()(index_1d at, __half g, disjoint_view<__half> x) const {
        dependency_trigger();
        dependency_wait();
        if (__half* const element = x.at(at)) *element = __hmul(*element, g);
    }
};

any_operation<tensor<__half>> early_chain(tensor<__half> x, std::size_t length) {
    any_operation<tensor<__half>> all = value(std::move(x));
    for (std::size_t i = 0; i < length; ++i) {
        all = std::move(all).and_then([](tensor<__half> y) {
            const auto range = each_of(y).early_start();
            return launch(early_scale{}, range, __float2half(1.0f), std::move(y));
        });
    }
    return all;
}

__global__ void early_by_hand(__half* x, __half g, std::size_t size) {
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] = __hmul(x[i], g);
}

void early(device& gpu, const std::string& name) {
    constexpr std::size_t n = 100;
    single_stream policy(gpu);
    tensor<__half> x = sync(zeros<__half>({elements}), policy);
    const auto with =
        compile(gpu, [](tensor<__half> y) { return early_chain(std::move(y), n); }, device_input<__half>({elements}));
    const auto without =
        compile(gpu, [](tensor<__half> y) { return chain(std::move(y), n); }, device_input<__half>({elements}));
    const auto stream = bench::make_stream();
    const auto data = bench::make_device<__half>(elements);
    check(cudaMemset(data.get(), 0, elements * sizeof(__half)));
    const auto by_hand = [&](bool is_early) {
        cudaLaunchAttribute attribute{};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t how{};
        how.gridDim = dim3(elements / 256);
        how.blockDim = dim3(256);
        how.stream = stream.get();
        how.attrs = &attribute;
        how.numAttrs = is_early ? 1 : 0;
        for (std::size_t i = 0; i < n; ++i)
            check(cudaLaunchKernelEx(&how, is_early ? early_by_hand : scale_by_hand, data.get(), __float2half(1.0f),
                                     elements));
        check(cudaStreamSynchronize(stream.get()));
    };
    const auto times = bench::medians(
        {[&] { x = sync(early_chain(std::move(x), n), policy); }, [&] { x = sync(chain(std::move(x), n), policy); },
         [&] { x = sync(with(std::move(x)), policy); }, [&] { x = sync(without(std::move(x)), policy); },
         [&] { by_hand(true); }, [&] { by_hand(false); }},
        1000);
    bench::print({"early_start", "{\"n\": 100, \"form\": \"eager\", \"baseline\": \"ours without\"}", times[0], "us",
                  times[1], name});
    bench::print({"early_start", "{\"n\": 100, \"form\": \"graph\", \"baseline\": \"ours without\"}", times[2], "us",
                  times[3], name});
    bench::print({"early_start", "{\"n\": 100, \"form\": \"by hand\", \"baseline\": \"by hand without\"}", times[4],
                  "us", times[5], name});
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    const std::string name = gpu.properties().name;
    replay(gpu, name);
    build(gpu, name);
    loop(gpu, name);
    relaunch(gpu, name);
    early(gpu, name);
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
