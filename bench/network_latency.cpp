// SPDX-License-Identifier: Apache-2.0
// The latency of a network host to host: inputs in pinned memory, weights on the GPU in bf16, outputs in pinned memory,
// as PyTorch's are. Each batch is one launch of a graph; a large batch is cut into pieces, so that one piece's copy
// overlaps with another's computing. Compared with the same by hand: cuBLASLt's products in a CUDA graph with the same
// pieces. bench/torch_network.py measures PyTorch's CUDA graphs on the same network.
//
//     bench_network_latency [14336,2048 ...]     the usual batches, or these, in pieces of these numbers of rows
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "network_by_hand.hpp"
#include "sluice/kernels/gemm_tuning.hpp"
#include "sluice/nn/plan.hpp"
#include "sluice/sluice.hpp"
#include "support/networks.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

// Tunes the network's products as `sluice tune` does.
void tune(device& gpu, std::size_t rows) {
    const std::array problems{gemm_problem{gemm_type::bf16, true, rows, 512, 784},
                              gemm_problem{gemm_type::bf16, true, rows, 512, 512},
                              gemm_problem{gemm_type::bf16, true, rows, 10, 512}};
    tune_gemm(gpu, problems, std::filesystem::temp_directory_path() / "sluice_network_latency_products.txt");
}

std::string text_of(const std::vector<std::size_t>& pieces) {
    std::string text;
    for (const std::size_t each : pieces) text += (text.empty() ? "[" : ", ") + std::to_string(each);
    return text + "]";
}

std::vector<layer_by_hand> layers_of(const std::vector<mlp_layer>& model) {
    std::vector<layer_by_hand> made;
    for (const mlp_layer& each : model) {
        layer_by_hand layer{each.in_features, each.out_features, {}, {}, each.after == activation::relu};
        for (const float value : each.weight) layer.weight.emplace_back(value);
        for (const float value : each.bias) layer.bias.emplace_back(value);
        made.push_back(std::move(layer));
    }
    return made;
}

// Both versions round to bf16 after each layer, but add in different orders.
void compare(std::span<const bfloat16> ours, std::span<const bfloat16> by_hand) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        const double a = float(ours[i]), b = float(by_hand[i]);
        difference += (a - b) * (a - b);
        size += b * b;
    }
    if (!(difference <= 4e-4 * size)) throw std::runtime_error("the versions do not agree");
}

void measure(device& gpu, std::size_t rows, const std::vector<std::size_t>& pieces) {
    single_stream policy(gpu);
    const std::vector<mlp_layer> model = random_network({784, 512, 512, 10});
    const auto network = sync(nn::make_plan<bfloat16>(model), policy);
    for (const std::size_t each : pieces) tune(gpu, each);
    const auto fast = nn::compile_forward_from_host(policy, network, rows, {}, pieces, download_buffer);
    host_buffer<bfloat16> filled(policy.next(), rows * 784);
    std::mt19937 random(2);
    std::uniform_real_distribution<float> some(-1, 1);
    for (bfloat16& value : filled.write()) value = bfloat16(some(random));
    const shared input(std::move(filled));
    host_buffer<bfloat16> last;
    network_by_hand hand(layers_of(model), pieces, input->read().data());
    const auto times =
        medians({[&] { last = sync(fast(input), policy); }, [&] { hand.run(); }}, rows > 1000 ? 200 : 2000);
    for (const bfloat16 value : last.read()) {
        if (!std::isfinite(float(value))) throw std::runtime_error("an output is not finite");
    }
    compare(last.read(), hand.output());
    const std::string axes =
        "{\"network\": \"784-512-512-10\", \"type\": \"bf16\", \"batch\": " + std::to_string(rows) +
        ", \"pieces\": " + text_of(pieces);
    const std::string name = gpu.properties().name;
    print({"network_latency", axes + "}", times[0], "us", {}, name});
    print(
        {"network_latency", axes + ", \"baseline\": \"cuBLASLt in a graph by hand\"}", times[0], "us", times[1], name});
}

std::vector<std::size_t> pieces_of(const std::string& text) {
    std::vector<std::size_t> pieces;
    std::istringstream from(text);
    for (std::string each; std::getline(from, each, ',');) pieces.push_back(std::stoul(each));
    return pieces;
}

void run(const std::vector<std::string>& asked) {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    for (const std::string& each : asked) {
        const auto pieces = pieces_of(each);
        measure(gpu, std::accumulate(pieces.begin(), pieces.end(), std::size_t{0}), pieces);
    }
    if (!asked.empty()) return;
    for (const std::size_t rows : {1, 64, 16384}) measure(gpu, rows, nn::pieces_of_batch(rows, 784 * sizeof(bfloat16)));
    for (const auto& pieces :
         std::vector<std::vector<std::size_t>>{{16384}, {14336, 2048}, {13312, 2560, 512}, {4096, 4096, 4096, 4096}})
        measure(gpu, 16384, pieces);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) try {
    sluice::bench::run({argv + 1, argv + argc});
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
