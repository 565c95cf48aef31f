// SPDX-License-Identifier: Apache-2.0
// A network that stays on the GPU, host to host: the median and the 99th of 100 of the time of a request, with the rest
// of the GPU idle and with it busy with matrix products; and how many requests several threads get answered. Compared
// with one launch of a graph of the same network from the same memory (nn::compile_forward_from_host, which
// bench_network_latency compares with a graph by hand and with PyTorch).
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/nn/plan.hpp"
#include "sluice/nn/resident.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/sluice.hpp"
#include "support/latency.hpp"
#include "support/networks.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

using clock = std::chrono::steady_clock;

// Products of large matrices, one after the other, while it lives.
class busy_gpu {
public:
    explicit busy_gpu(device& gpu)
        : pool_(gpu),
          a_(sync(zeros<half>({4096, 4096}), pool_)),
          b_(sync(zeros<half>({4096, 4096}), pool_)),
          thread_([this](const std::stop_token& end) {
              multiply();
              while (!end.stop_requested()) multiply();
          }) {}

private:
    void multiply() {
        for (int i = 0; i < 8; ++i) gemm(pool_.next(), *a_, *b_, nullptr, c_, {});
        pool_.next().wait(pool_.next().issued(), wait_mode::block);
    }

    single_stream pool_;
    shared_tensor<half> a_, b_;
    tensor<half> c_{pool_.next(), {4096, 4096}};
    std::jthread thread_;
};

template <typename T>
void compare(device& gpu, const std::vector<std::size_t>& widths, const std::string& name, std::size_t rows,
             std::size_t blocks = 0) {
    single_stream policy(gpu);
    const std::vector<mlp_layer> model = random_network(widths);
    const auto plan = sync(nn::make_plan<T>(model), policy);
    const auto graph = nn::compile_forward_from_host(policy, plan, rows);
    const std::vector<T> x(rows * widths.front(), T(0.5F));
    std::vector<T> y(rows * widths.back());
    static_cast<void>(sync(graph(x), policy));
    std::optional<busy_gpu> busy(std::in_place, gpu);  // makes the library's handle
    busy.reset();
    const nn::resident_network<T> network(gpu, nn::to_model(model), {.rows = 8, .blocks_of_lane = blocks});
    for (const bool is_busy : {false, true}) {
        if (is_busy) busy.emplace(gpu);
        const latency ours = measure_latency([&] { network.run(x, y); }, 100'000);
        const latency launched = measure_latency([&] { static_cast<void>(sync(graph(x), policy)); }, 3'000);
        const auto print_one = [&](const char* which, double value, double baseline) {
            print({"resident",
                   "{\"network\": \"" + name + "\", \"rows\": " + std::to_string(rows) + ", \"blocks\": " +
                       std::to_string(network.blocks_of_lane()) + ", \"other work\": " + (is_busy ? "true" : "false") +
                       ", \"quantile\": \"" + which + "\", \"baseline\": \"graph launch\"}",
                   value, "us", baseline, gpu.properties().name});
        };
        print_one("median", ours.median, launched.median);
        print_one("99 %", ours.late, launched.late);
    }
}

void measure_throughput(device& gpu) {
    const std::vector<mlp_layer> model = random_network({64, 64, 64, 10});
    const nn::resident_network<half> network(gpu, nn::to_model(model), {.lanes = 8});
    for (const std::size_t threads : {1, 4, 8}) {
        std::atomic<bool> is_over{false};
        std::atomic<std::size_t> answers{0};
        const auto begin = clock::now();
        {
            std::vector<std::jthread> all;
            for (std::size_t i = 0; i < threads; ++i) {
                all.emplace_back([&] {
                    const std::vector<half> x(64, half(0.5F));
                    std::vector<half> y(10);
                    std::size_t mine = 0;
                    for (; !is_over; ++mine) network.run(x, y);
                    answers += mine;
                });
            }
            std::this_thread::sleep_for(std::chrono::seconds(1));
            is_over = true;
        }
        const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
        print({"resident_throughput",
               "{\"network\": \"64-64-64-10 f16\", \"lanes\": 8, \"threads\": " + std::to_string(threads) + "}",
               static_cast<double>(answers) / seconds, "requests/s", std::nullopt, gpu.properties().name});
    }
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    compare<half>(gpu, {64, 64, 64, 10}, "64-64-64-10 f16", 1);
    compare<half>(gpu, {64, 64, 64, 10}, "64-64-64-10 f16", 8);
    compare<float>(gpu, {64, 64, 64, 10}, "64-64-64-10 f32", 1);
    compare<float>(gpu, {64, 64, 64, 10}, "64-64-64-10 f32", 8);
    for (const std::size_t blocks : {16, 8}) {
        compare<bfloat16>(gpu, {784, 512, 512, 10}, "784-512-512-10 bf16", 1, blocks);
        compare<bfloat16>(gpu, {784, 512, 512, 10}, "784-512-512-10 bf16", 8, blocks);
    }
    measure_throughput(gpu);
}

}  // namespace
}  // namespace sluice::bench

int main() try {
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // see resident.hpp
    sluice::bench::run();
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
