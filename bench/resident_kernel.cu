// SPDX-License-Identifier: Apache-2.0
// A kernel of one's own that stays on the GPU, host to host: the median, the 99th of 100 and the 999th of 1000 of the
// time of a request, over the size of request and answer, next to one launch by hand of a
// graph of one kernel that reads and writes pinned memory, and next to an echo of one word without Sluice, which is
// what the way itself takes. And how many requests a second several threads get answered.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/kernels/resident_kernel.hpp"
#include "sluice/sluice.hpp"
#include "support/latency.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

using clock = std::chrono::steady_clock;

void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

template <std::size_t Bytes>
struct increments {
    struct numbers {
        unsigned value[Bytes / 4];
    };
    SLUICE_KERNEL void operator()(const thread_block& block, const numbers& asked, numbers& answer) const {
        block.for_each_thread([&](const block_thread& t) {
            for (unsigned i = t.index(); i < Bytes / 4; i += block.threads()) answer.value[i] = asked.value[i] + 1;
        });
    }
};

// A thread for each 16 bytes, so that all reads are on their way at the same time.
__global__ void increment_once(const uint4* __restrict__ asked, uint4* __restrict__ answer) {
    const uint4 x = asked[threadIdx.x];
    answer[threadIdx.x] = {x.x + 1, x.y + 1, x.z + 1, x.w + 1};
}

// One graph of one kernel, which reads and writes pinned memory: the least that we know for a request by CUDA's graphs.
template <std::size_t Bytes>
class graph_by_hand {
public:
    graph_by_hand() {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        check(cudaMallocHost(&asked_, Bytes));
        check(cudaMallocHost(&answer_, Bytes));
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        increment_once<<<1, Bytes / 16, 0, stream_>>>(reinterpret_cast<const uint4*>(asked_),
                                                      reinterpret_cast<uint4*>(answer_));
        cudaGraph_t graph{};
        check(cudaStreamEndCapture(stream_, &graph));
        check(cudaGraphInstantiate(&instance_, graph, 0));
        check(cudaGraphDestroy(graph));
        check(cudaGraphLaunch(instance_, stream_));
        check(cudaStreamSynchronize(stream_));
    }
    void ask(const unsigned* from, unsigned* to) {
        std::memcpy(asked_, from, Bytes);
        check(cudaGraphLaunch(instance_, stream_));
        check(cudaStreamSynchronize(stream_));
        std::memcpy(to, answer_, Bytes);
    }

private:  // nothing is freed: the process ends, and cudaFreeHost would wait for the kernel that stays
    cudaStream_t stream_{};
    cudaGraphExec_t instance_{};
    unsigned* asked_ = nullptr;
    unsigned* answer_ = nullptr;
};

__global__ void echo(const volatile unsigned* asked, volatile unsigned* answer, unsigned last) {
    for (unsigned seen = 0; seen != last;) {
        const unsigned now = *asked;
        if (now == seen) continue;
        seen = now;
        *answer = now;
    }
}

// By hand: one word there and back.
latency measure_echo(std::size_t count) {
    cudaStream_t stream{};
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned* words = nullptr;
    check(cudaMallocHost(&words, 4096));
    std::memset(words, 0, 4096);
    const auto last = static_cast<unsigned>(count + 100);
    echo<<<1, 1, 0, stream>>>(words, words + 512, last);
    check(cudaGetLastError());
    unsigned number = 0;
    const latency made = measure_latency(
        [&] {
            std::atomic_ref(words[0]).store(++number, std::memory_order_release);
            while (std::atomic_ref(words[512]).load(std::memory_order_acquire) != number) {
            }
        },
        count);
    check(cudaStreamSynchronize(stream));
    return made;
}

void print_latency(const std::string& params, const latency& ours, const std::optional<latency>& theirs,
                   const std::string& machine) {
    const auto print_one = [&](const char* which, double value, std::optional<double> baseline) {
        print({"resident_kernel", "{" + params + ", \"quantile\": \"" + which + "\"}", value, "us", baseline, machine});
    };
    print_one("median", ours.median, theirs ? std::optional(theirs->median) : std::nullopt);
    print_one("99 %", ours.late, theirs ? std::optional(theirs->late) : std::nullopt);
    print_one("99.9 %", ours.latest, theirs ? std::optional(theirs->latest) : std::nullopt);
}

__global__ void __launch_bounds__(256) multiply_and_add(float* to) {
    float x = threadIdx.x, y = blockIdx.x;
    for (int i = 0; i < 20'000; ++i) x = x * y + 1;
    if (x == 0.5F) *to = x;
}

// Kernels that fill the multiprocessors, one after the other, while it lives.
class busy_gpu {
public:
    busy_gpu() {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        thread_ = std::jthread([stream = stream_](const std::stop_token& end) {
            while (!end.stop_requested()) {
                for (int i = 0; i < 4; ++i) multiply_and_add<<<2000, 256, 0, stream>>>(nullptr);
                check(cudaStreamSynchronize(stream));
            }
        });
    }

private:
    cudaStream_t stream_{};
    std::jthread thread_;
};

template <std::size_t Bytes>
void compare(device& gpu, const latency& echoed, const resident_kernel_options& options = {}, bool is_busy = false) {
    using kernel = increments<Bytes>;
    graph_by_hand<Bytes> graph;
    typename kernel::numbers asked{}, answer{};
    const resident_kernel stays(gpu, kernel{}, options);
    std::optional<busy_gpu> busy;
    if (is_busy) busy.emplace();
    const latency ours = measure_latency(
        [&] {
            ++asked.value[0];
            answer = stays.ask(asked);
            if (answer.value[0] != asked.value[0] + 1) throw std::runtime_error("a wrong answer");
        },
        100'000);
    const latency launched = measure_latency([&] { graph.ask(asked.value, answer.value); }, is_busy ? 2'000 : 10'000);
    const std::string size = "\"bytes\": " + std::to_string(Bytes) +
                             ", \"threads\": " + std::to_string(options.threads) +
                             ", \"pause ns\": " + std::to_string(options.pause.count()) +
                             ", \"other work\": " + (is_busy ? "true" : "false");
    print_latency(size + ", \"baseline\": \"graph by hand\"", ours, launched, gpu.properties().name);
    print_latency(size + ", \"baseline\": \"echo of one word by hand\"", ours, echoed, gpu.properties().name);
}

void measure_throughput(device& gpu) {
    using kernel = increments<16>;
    for (const std::size_t lanes : {1, 8}) {
        for (const std::size_t depth : {1, 8}) {
            const resident_kernel stays(gpu, kernel{}, {.lanes = lanes, .requests = std::max<std::size_t>(8, depth)});
            for (const std::size_t threads : {1, 4, 8}) {
                std::atomic<bool> is_over{false};
                std::atomic<std::size_t> answers{0};
                const auto begin = clock::now();
                {
                    std::vector<std::jthread> all;
                    for (std::size_t i = 0; i < threads; ++i) {
                        all.emplace_back([&, i] {
                            // Each thread's share of a lane's entries.
                            const std::size_t mine = lanes == 1 ? std::max<std::size_t>(1, depth / threads) : depth;
                            std::vector<resident_answer<kernel::numbers>> posted;
                            std::size_t count = 0;
                            while (!is_over) {
                                for (std::size_t k = 0; k < mine; ++k)
                                    posted.push_back(stays.post(kernel::numbers{}, i % lanes));
                                for (auto& each : posted) static_cast<void>(std::move(each).get());
                                posted.clear();
                                count += mine;
                            }
                            answers += count;
                        });
                    }
                    std::this_thread::sleep_for(std::chrono::milliseconds(500));
                    is_over = true;
                }
                const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
                print({"resident_kernel_throughput",
                       "{\"bytes\": 16, \"lanes\": " + std::to_string(lanes) + ", \"in flight\": " +
                           std::to_string(depth) + ", \"threads\": " + std::to_string(threads) + "}",
                       static_cast<double>(answers) / seconds, "requests/s", std::nullopt, gpu.properties().name});
            }
        }
    }
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    const latency echoed = measure_echo(100'000);
    compare<16>(gpu, echoed);
    compare<16>(gpu, echoed, {}, true);
    compare<16>(gpu, echoed, {.pause = std::chrono::microseconds(1)});
    compare<128>(gpu, echoed);
    compare<1024>(gpu, echoed);
    compare<1024>(gpu, echoed, {.threads = 256});
    compare<4096>(gpu, echoed);
    compare<4096>(gpu, echoed, {.threads = 1024});
    measure_throughput(gpu);
}

}  // namespace
}  // namespace sluice::bench

int main() try {
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // see nn/resident.hpp
    sluice::bench::run();
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
