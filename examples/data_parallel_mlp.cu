// SPDX-License-Identifier: Apache-2.0
// data_parallel_mlp: one network on four devices, one batch on each. The weights are created on the first device and
// copied from device to device. All batches are in flight before the first is awaited, and their outputs are gathered
// and printed, sixteen numbers of each batch. Then the same with the three kernels in one, which needs less memory; and
// with data from the host, whose copies overlap with kernels.
//
// It always uses four devices: with fewer GPUs, one GPU acts as several; without a GPU, there are four virtual CPU
// devices. The pipeline is in data_parallel_mlp.hpp, so that the simulator's tests can use it too.

#include "data_parallel_mlp.hpp"

#include <algorithm>
#include <cstdio>

#include "sluice/async/sync_wait.hpp"

using namespace data_parallel_mlp;

namespace {

constexpr std::size_t dim = 16;
constexpr std::size_t ranks = 4;

device_set four(const runtime& machine) {
    const device_set there = device_set::of(machine);
    std::vector<device*> all;
    for (std::size_t i = 0; i < ranks; ++i) all.push_back(&there[i % there.size()]);
    return device_set(std::move(all));
}

void print(const char* what, const std::vector<float>& outputs, std::size_t batches) {
    for (std::size_t i = 0; i < batches; ++i) {
        const float* const first = outputs.data() + i * dim;
        const bool relu_ok = std::all_of(first, first + dim, [](float x) { return x >= 0; });
        std::printf("%s, batch %zu:", what, i);
        for (std::size_t j = 0; j < dim; ++j) std::printf(" %.4f", double(first[j]));
        std::printf(" [%s]\n", relu_ok ? "ReLU OK" : "ReLU FAILED");
    }
}

}  // namespace

int main() try {
    runtime machine({.cpu_devices = ranks});
    const device_set all = four(machine);
    round_robin_devices pool(all, 4);

    const std::vector<float> outputs = sync_wait(run_all(dim, all, pool, three_kernels{}));
    print("three kernels", outputs, ranks);
    std::printf("in one kernel the outputs are %s\n",
                sync_wait(run_all(dim, all, pool, one_kernel{})) == outputs ? "the same" : "DIFFERENT");
    const weights first = sync_wait(make_weights(dim, all, pool)).front();
    std::printf("scratch memory of a batch: %zu bytes with three kernels, %zu with one\n",
                scratch_bytes(dim, first, pool.on(all[0]), three_kernels{}),
                scratch_bytes(dim, first, pool.on(all[0]), one_kernel{}));
    print("from the host", sync_wait(run_overlapped(dim, 2, all, pool)), 2 * ranks);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "data_parallel_mlp: %s\n", failure.what());
    return 1;
}
