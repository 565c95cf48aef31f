// A network host to host: inputs in pinned memory, weights on the GPU in bf16, outputs back in the host's memory. A
// batch as one launch of a graph; large ones in pieces on several streams, so that one piece's copy hides another's
// computing. bench/torch_network.py measures PyTorch's CUDA graphs on the same.
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/kernels/gemm_tuning.hpp"
#include "sluice/nn/plan.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

nn::mlp_model make_model(const std::vector<std::size_t>& widths) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> some(-1, 1);
    nn::mlp_model model;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
        nn::dense_layer layer;
        layer.in_features = widths[i];
        layer.out_features = widths[i + 1];
        layer.weight.resize(widths[i] * widths[i + 1]);
        for (float& each : layer.weight) each = some(random) * 2 / std::sqrt(float(widths[i]));
        layer.bias.resize(widths[i + 1]);
        for (float& each : layer.bias) each = some(random);
        layer.after = i + 2 == widths.size() ? activation::none : activation::relu;
        model.layers.push_back(std::move(layer));
    }
    return model;
}

// What `sluice tune` does for the products of the network.
void tune(device& gpu, std::size_t rows) {
    const std::array problems{gemm_problem{gemm_type::bf16, true, rows, 512, 784},
                              gemm_problem{gemm_type::bf16, true, rows, 512, 512},
                              gemm_problem{gemm_type::bf16, true, rows, 10, 512}};
    tune_gemm(gpu, problems, std::filesystem::temp_directory_path() / "sluice_network_latency_products.txt");
}

void measure(device& gpu, std::size_t rows, std::size_t pieces) {
    round_robin pool(gpu, std::min<std::size_t>(pieces, 4));
    const auto network = sync(nn::make_plan<bfloat16>(make_model({784, 512, 512, 10})), pool);
    const std::size_t each = rows / pieces;
    tune(gpu, each);
    const auto fast = nn::compile_forward_from_host(pool, network, each, {.replicas = pieces});
    const auto make_input = [&] {
        host_buffer<bfloat16> made(pool.next(), each * 784);
        std::mt19937 random(2);
        std::uniform_real_distribution<float> some(-1, 1);
        for (bfloat16& value : made.write()) value = bfloat16(some(random));
        return made;
    };
    std::vector<shared<host_buffer<bfloat16>>> inputs;
    for (std::size_t i = 0; i < pieces; ++i) inputs.push_back(shared(make_input()));
    std::vector<device_future<pending<std::vector<bfloat16>>>> running;
    std::vector<bfloat16> last;
    const auto once = [&] {
        running.clear();
        for (const auto& input : inputs) running.push_back(spawn(fast(input), pool));
        for (auto& piece : running) last = std::move(piece).get();
    };
    const double took = medians({once}, rows > 1000 ? 200 : 2000)[0];
    for (const bfloat16 value : last) {
        if (!std::isfinite(float(value))) throw std::runtime_error("an output is not finite");
    }
    print({"network_latency",
           "{\"network\": \"784-512-512-10\", \"type\": \"bf16\", \"batch\": " + std::to_string(rows) +
               ", \"pieces\": " + std::to_string(pieces) + "}",
           took,
           "us",
           {},
           gpu.properties().name});
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    measure(gpu, 1, 1);
    measure(gpu, 64, 1);
    for (const std::size_t pieces : {1, 4, 8, 16}) measure(gpu, 16384, pieces);
}

}  // namespace
}  // namespace sluice::bench

int main() try { sluice::bench::run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
