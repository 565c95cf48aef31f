// SPDX-License-Identifier: Apache-2.0
// A network that stays on the GPU, asked by eight threads for a time, while its weights are replaced ten times a
// second: whether each answer is, bit for bit, that of the old or the new weights, and whether the memory of the
// process and of the device grows. Uses the first GPU, or else a CPU device.
//
//     bench_resident_soak [SECONDS]      600 without
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice/nn/resident.hpp"
#include "sluice/nn/to_model.hpp"
#include "sluice/sluice.hpp"
#include "support/memory.hpp"
#include "support/networks.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t threads = 8, kinds = 64, in_features = 64, out_features = 10;
using rows = std::vector<std::vector<half>>;

double device_mebibytes(device& of) {
    const auto usage = of.device_pool().usage();
    return double(usage.in_use_bytes + usage.cached_bytes) / (1024.0 * 1024.0);
}

bool same_bits(const std::vector<half>& a, const std::vector<half>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(half)) == 0;
}

rows answers_of(const nn::resident_network<half>& network, const rows& inputs) {
    rows made(inputs.size(), std::vector<half>(out_features));
    for (std::size_t i = 0; i < inputs.size(); ++i) network.run(inputs[i], made[i]);
    return made;
}

void run(std::chrono::seconds lasting) {
    runtime machine({.cpu_workers = 2});
    device& on = machine.default_device();
    const std::vector<mlp_layer> first = random_network({in_features, 64, 64, out_features});
    std::vector<mlp_layer> second = first;
    for (mlp_layer& each : second) each.bias.assign(each.bias.size(), 0.25F);
    const nn::resident_network<half> network(on, nn::to_model(first), {.lanes = threads});
    rows inputs(kinds, std::vector<half>(in_features));
    for (std::size_t i = 0; i < kinds; ++i)
        for (std::size_t k = 0; k < in_features; ++k) inputs[i][k] = half(float(i * 31 + k * 7 % 97) / 512.0F);
    const rows with_first = answers_of(network, inputs);
    network.update(nn::to_model(second));
    const rows with_second = answers_of(network, inputs);
    for (std::size_t i = 0; i < kinds; ++i) {
        // Else an answer could not tell which weights it is from, or which input.
        if (same_bits(with_first[i], with_second[i]) || (i != 0 && same_bits(with_first[i], with_first[i - 1])))
            throw std::runtime_error("two answers are the same");
    }

    std::atomic<bool> is_over{false};
    std::atomic<std::size_t> answers{0}, wrong{0};
    const auto ask = [&](std::size_t thread) {
        std::vector<half> y(out_features);
        std::size_t mine = 0, bad = 0;
        for (std::size_t i = thread; !is_over.load(std::memory_order_relaxed); ++i, ++mine) {
            network.run(inputs[i % kinds], y);
            if (!same_bits(y, with_first[i % kinds]) && !same_bits(y, with_second[i % kinds])) ++bad;
        }
        answers += mine;
        wrong += bad;
    };
    double before = 0, device_before = 0;
    std::size_t updates = 0;
    const auto begin = std::chrono::steady_clock::now();
    {
        std::vector<std::jthread> all;
        for (std::size_t i = 0; i < threads; ++i) all.emplace_back(ask, i);
        const auto end = begin + lasting;
        for (; std::chrono::steady_clock::now() < end; ++updates) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            network.update(nn::to_model(updates % 2 == 0 ? first : second));
            if (updates == 5) {  // everything that is made once has been made
                before = resident_mebibytes();
                device_before = device_mebibytes(on);
            }
        }
        is_over = true;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const std::string name = on.properties().name;
    const std::string params = "{\"network\": \"64-64-64-10 f16\", \"lanes\": 8, \"threads\": 8, \"seconds\": " +
                               std::to_string(lasting.count()) + ", \"updates\": " + std::to_string(updates) + "}";
    print({"resident_soak_answers", params, double(answers), "requests", {}, name});
    print({"resident_soak_wrong_answers", params, double(wrong), "requests", {}, name});
    print({"resident_soak_rate", params, double(answers) / took.count(), "requests/s", {}, name});
    print({"resident_soak_resident_memory", params, resident_mebibytes(), "MiB", before, name});
    print({"resident_soak_device_memory", params, device_mebibytes(on), "MiB", device_before, name});
    if (wrong != 0) throw std::runtime_error("wrong answers");
}

}  // namespace
}  // namespace sluice::bench

int main(int count, char** arguments) try {
    const long seconds = count == 2 ? std::strtol(arguments[1], nullptr, 10) : count == 1 ? 600 : 0;
    if (seconds < 2) {
        std::fprintf(stderr, "usage: %s [SECONDS], at least 2\n", arguments[0]);
        return 2;
    }
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // see resident.hpp
    sluice::bench::run(std::chrono::seconds(seconds));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
