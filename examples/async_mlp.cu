// SPDX-License-Identifier: Apache-2.0
// async_mlp: four batches run through a small network concurrently, on a pool of four streams. They are spawned as
// futures and awaited by a coroutine. The only thread that waits for the device is main, once, at the end.
//
// The pipeline, kernels and host code together, is in async_mlp.hpp, so that the simulator's tests can use it too. It
// runs on a GPU if there is one, otherwise on the CPU, and prints the same on both.

#include "async_mlp.hpp"

#include <charconv>
#include <cstdio>
#include <string>

#include "sluice/async/sync_wait.hpp"

using namespace async_mlp;

namespace {

constexpr std::size_t dim = 64;
constexpr std::size_t batches = 4;

// The shortest decimal that reads back as the same float.
std::string to_text(float value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    std::string shortest(text, end);
    return shortest.find_first_of(".en") == std::string::npos ? shortest + ".0" : shortest;
}

bool print(std::size_t batch, const std::vector<float>& output) {
    bool relu_ok = true;
    for (const float each : output) relu_ok = relu_ok && each >= 0;
    std::string first;
    for (std::size_t i = 0; i < 8; ++i) first += (i == 0 ? "" : ", ") + to_text(output[i]);
    std::printf("Batch %zu: %zu elements, first 8 = [%s] [%s]\n", batch, output.size(), first.c_str(),
                relu_ok ? "ReLU OK" : "ReLU FAILED");
    return relu_ok;
}

int run() {
    runtime machine;
    round_robin pool(machine.default_device(), batches);
    const auto [w0, w1] = upload_weights(dim, pool);
    auto described = describe(batches, w0, w1);
    std::printf("w0: shape %s, %ld references; w1: shape %s, %ld references\n", to_string(w0->shape()).c_str(),
                w0.use_count(), to_string(w1->shape()).c_str(), w1.use_count());

    const std::vector<std::vector<float>> outputs = sync_wait(run_all(std::move(described), pool));
    bool all_ok = true;
    for (std::size_t b = 0; b < outputs.size(); ++b) all_ok = print(b, outputs[b]) && all_ok;
    std::puts(all_ok ? "SUCCESS: All batches completed." : "FAILED: a batch is wrong.");
    return all_ok ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "async_mlp: %s\n", failure.what());
    return 1;
}
