// SPDX-License-Identifier: Apache-2.0
// The batches of examples/async_mlp with its three kernels for the hidden layer: one thread for each element, tiles in
// shared memory, and the library's gemm. A round is four batches on four streams, from std::vector to std::vector.
#include "examples/async_mlp.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace {

void run() {
    using namespace async_mlp;
    runtime machine;
    device& gpu = machine.find("cuda:0");
    round_robin pool(gpu, 4);
    const std::string name = gpu.properties().name;
    for (const std::size_t dim : {64, 512, 1024}) {
        const auto [w0, w1] = upload_weights(dim, pool);
        std::vector<float> input(dim * dim, 0.5f);
        const auto round = [&](product how) {
            return [&, how] {
                running_batches running;
                for (int b = 0; b < 4; ++b) running.push_back(spawn(forward(input, w0, w1, how), pool));
                for (auto& each : running) static_cast<void>(std::move(each).get());
            };
        };
        const auto times = bench::medians({round(product::naive), round(product::tiled), round(product::library)},
                                          dim == 64 ? 500 : 60);
        const std::string size = "{\"dim\": " + std::to_string(dim) + ", \"kernels\": \"";
        const std::string baseline = "\", \"baseline\": \"naive\"}";
        bench::print({"async_mlp_kernels", size + "tiled" + baseline, times[1], "us", times[0], name});
        bench::print({"async_mlp_kernels", size + "library" + baseline, times[2], "us", times[0], name});
    }
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
