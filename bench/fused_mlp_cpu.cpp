// SPDX-License-Identifier: Apache-2.0
// A whole network on one CPU thread, f32: ours, all layers for a block of rows, compared with the library's inner
// products layer by layer (oneDNN or OpenBLAS, as gemm calls them). Rows per second; results are checked before timing.
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
#include "kernels/gemm/gemm_dispatch.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

std::vector<float> random_values(std::size_t size, float scale) {
    static std::mt19937 generator(3);
    std::uniform_real_distribution<float> any(-scale, scale);
    std::vector<float> made(size);
    for (float& each : made) each = any(generator);
    return made;
}

std::vector<mlp_layer> random_network(const std::vector<std::size_t>& features) {
    std::vector<mlp_layer> layers;
    for (std::size_t i = 0; i + 1 < features.size(); ++i) {
        const std::size_t in = features[i], out = features[i + 1];
        layers.push_back({in, out, random_values(in * out, std::sqrt(6.0f / static_cast<float>(in))),
                          random_values(out, 0.1f), i + 2 == features.size() ? activation::none : activation::relu});
    }
    return layers;
}

// One buffer per layer, for its output.
void run_layers(const std::vector<mlp_layer>& layers, const float* x, std::size_t rows,
                std::vector<std::vector<float>>& after) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const mlp_layer& layer = layers[i];
        kernels::gemm_on_cpu({x,
                              layer.weight.data(),
                              layer.bias.data(),
                              after[i].data(),
                              nullptr,
                              {gemm_type::f32, true, rows, layer.out_features, layer.in_features},
                              layer.after,
                              {}});
        x = after[i].data();
    }
}

void compare(const std::vector<std::size_t>& features, const std::string& name, std::size_t rows) {
    runtime machine({.cuda = false});
    single_stream policy(machine.find("cpu:0"));
    const auto layers = random_network(features);
    const auto network = sync(pack_mlp<float>(layers), policy);
    const auto x = random_values(rows * features.front(), 1);
    std::vector<float> ours(rows * features.back());
    std::vector<std::vector<float>> theirs;
    for (const mlp_layer& layer : layers) theirs.emplace_back(rows * layer.out_features);
    std::vector<float> scratch(kernels::fused_mlp_scratch_floats(rows, network.form(), kernels::fused_type::f32));
    const kernels::fused_mlp_call call{x.data(), ours.data(),    network.image().device_data(),
                                       rows,     network.form(), scratch.data()};

    std::size_t parameters = 0;
    for (const mlp_layer& layer : layers) parameters += layer.weight.size();
    const std::size_t repeats =
        std::max<std::size_t>(1, 4096 / rows * 10'000 / std::max<std::size_t>(10'000, parameters));
    const auto run_ours = [&] {
        for (std::size_t i = 0; i < repeats; ++i) kernels::fused_mlp_on_cpu(call, kernels::fused_type::f32);
    };
    const auto run_theirs = [&] {
        for (std::size_t i = 0; i < repeats; ++i) run_layers(layers, x.data(), rows, theirs);
    };
    run_ours();
    run_theirs();
    for (std::size_t i = 0; i < ours.size(); ++i) {
        if (!(std::fabs(ours[i] - theirs.back()[i]) <= 1e-3f)) throw std::runtime_error("the versions do not agree");
    }
    const auto times = medians({run_ours, run_theirs}, 51, 3);
    const double done = static_cast<double>(rows * repeats);
    print({"fused_mlp_cpu",
           "{\"network\": \"" + name + "\", \"batch\": " + std::to_string(rows) +
               ", \"threads\": 1, \"baseline\": \"inner products, layer by layer\"}",
           done / times[0] * 1e6, "rows/s", done / times[1] * 1e6, machine.find("cpu:0").properties().name});
}

}  // namespace

void compare_all() {
    for (const std::size_t rows : {1, 64, 1024}) {
        compare({64, 64, 64, 10}, "64-64-64-10", rows);
        compare({256, 256, 256, 256, 10}, "256-256-256-256-10", rows);
    }
    for (const std::size_t rows : {1, 2, 4, 8, 16, 32, 64, 1024}) {
        compare({784, 512, 512, 10}, "784-512-512-10", rows);
    }
    for (const std::size_t rows : {1, 16, 64, 256}) {
        compare({1024, 1024, 1024, 10}, "1024-1024-1024-10", rows);
        compare({2048, 2048, 2048, 10}, "2048-2048-2048-10", rows);
    }
}

}  // namespace sluice::bench

int main() try { sluice::bench::compare_all(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
