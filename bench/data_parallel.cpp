// SPDX-License-Identifier: Apache-2.0
// One network on several devices, with the same work for each: throughput relative to one device. On GPUs
// 784-512-512-10 in bf16, host to host from pinned memory, as graphs; on two virtual CPU devices of one worker each, in
// f32.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/kernels/gemm_tuning.hpp"
#include "sluice/nn/engine.hpp"
#include "sluice/nn/plan.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/sluice.hpp"
#include "support/networks.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t batch = 4096;
constexpr std::size_t batches_each = 400;  // per device
constexpr std::size_t in_flight_each = 4;

std::string axes(std::size_t devices, const char* type) {
    return "{\"network\": \"784-512-512-10\", \"type\": \"" + std::string(type) +
           "\", \"batch\": " + std::to_string(batch) + ", \"devices\": " + std::to_string(devices) + "}";
}

// Rows per second over these GPUs: each batch goes to the GPU with the least work in flight.
double gpu_throughput(const device_set& gpus, const std::vector<mlp_layer>& model) {
    using output = pending<std::vector<bfloat16>>;
    using fast_forward = decltype(nn::compile_forward_from_host(std::declval<scheduling_policy&>(),
                                                                std::declval<nn::basic_plan<bfloat16>>(), batch));
    round_robin_devices pool(gpus, in_flight_each);
    const auto network = sync(on_device(gpus[0], nn::make_plan<bfloat16>(model)), pool);
    const auto networks = sync(nn::replicate(gpus, network), pool);
    std::vector<fast_forward> forward;
    std::vector<std::vector<shared<host_buffer<bfloat16>>>> inputs(gpus.size());
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        forward.push_back(
            // In one piece, because the batches overlap.
            nn::compile_forward_from_host(pool.on(gpus[i]), networks[i], batch, {.replicas = in_flight_each}, {batch}));
        for (std::size_t j = 0; j < in_flight_each; ++j) {
            host_buffer<bfloat16> made(pool.on(gpus[i]).next(), batch * 784);
            std::size_t at = 0;
            for (bfloat16& value : made.write()) value = bfloat16(float(at++ % 17) * 0.1f - 0.8f);
            inputs[i].push_back(shared(std::move(made)));
        }
    }
    const auto run = [&] {
        std::vector<std::deque<device_future<output>>> under_way(gpus.size());
        for (std::size_t round = 0; round < batches_each; ++round) {
            for (std::size_t i = 0; i < gpus.size(); ++i) {
                if (under_way[i].size() == in_flight_each) {
                    const auto outputs = std::move(under_way[i].front()).get();
                    under_way[i].pop_front();
                    if (!std::isfinite(float(outputs.back()))) throw std::runtime_error("an output is not finite");
                }
                under_way[i].push_back(spawn(forward[i](inputs[i][round % in_flight_each]), pool.on(gpus[i])));
            }
        }
        for (auto& each : under_way) {
            for (auto& last : each) static_cast<void>(std::move(last).get());
        }
    };
    const double took = medians({run}, 7, 2)[0];
    return 1e6 * double(gpus.size() * batches_each * batch) / took;
}

double cpu_throughput(const device_set& cpus, const std::vector<mlp_layer>& model) {
    round_robin_devices pool(cpus, 4);
    nn::engine engine({.batch = 256, .in_flight = 8 * cpus.size()});
    for (device* const each : cpus)
        engine.add(sync(nn::make_network(nn::to_model(model)), pool.on(*each)), pool.on(*each));
    const std::size_t rows = 16384 * cpus.size();
    const auto values = std::make_shared<const std::vector<float>>(rows * 784, 0.25f);
    const auto run = [&] {
        engine.run(
            rows,
            [&](std::size_t first, std::size_t count) {
                return nn::host_rows(std::span(*values).subspan(first * 784, count * 784), values);
            },
            [](std::size_t, std::span<const float> outputs) {
                if (!std::isfinite(outputs.back())) throw std::runtime_error("an output is not finite");
            });
    };
    const double took = medians({run}, 7, 2)[0];
    return 1e6 * double(rows) / took;
}

void run() {
    const std::vector<mlp_layer> model = random_network({784, 512, 512, 10});
    {
        runtime machine({.cpu_devices = 2, .cpu_workers = 1, .cuda = false});
        const device_set both = device_set::of(machine, "cpu");
        const double one = cpu_throughput(device_set{both[0]}, model);
        print({"data_parallel", axes(2, "f32"), cpu_throughput(both, model), "rows/s", one, both[0].properties().name});
    }
    runtime machine;
    if (machine.default_device().kind() != device_kind::cuda) return;
    const device_set all = device_set::of(machine, "cuda");
    for (device* const each : all) {
        const std::array problems{gemm_problem{gemm_type::bf16, true, batch, 512, 784},
                                  gemm_problem{gemm_type::bf16, true, batch, 512, 512},
                                  gemm_problem{gemm_type::bf16, true, batch, 10, 512}};
        tune_gemm(*each, problems, std::filesystem::temp_directory_path() / "sluice_data_parallel_products.txt");
    }
    const double one = gpu_throughput(device_set{all[0]}, model);
    for (std::size_t count = 2; count <= all.size(); count *= 2) {
        const std::vector<device*> some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
        print({"data_parallel", axes(count, "bf16"), gpu_throughput(device_set(some), model), "rows/s", one,
               all[0].properties().name});
    }
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
