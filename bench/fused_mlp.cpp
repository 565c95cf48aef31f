// SPDX-License-Identifier: Apache-2.0
// A whole network in one kernel, f16, 2^20 rows, outputs as wide as the hidden layers: ours, its variants, layer by
// layer with cuBLASLt (bias and ReLU fused, best of its proposals), and a copy of as many bytes as must move. Then 256
// rows inside a graph. Every version is compared with the first before timing.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>

#include "fused_mlp.hpp"
#include "kernels/fused_mlp/fused_mlp_cuda.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/matmul_by_hand.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t many_rows = std::size_t{1} << 20;

std::vector<float> random_values(std::size_t size, float scale) {
    static std::mt19937 generator(11);
    std::uniform_real_distribution<float> any(-scale, scale);
    std::vector<float> made(size);
    for (float& each : made) each = any(generator);
    return made;
}

std::vector<half> halves(const std::vector<float>& values) {
    std::vector<half> made;
    made.reserve(values.size());
    for (const float each : values) made.push_back(half(each));
    return made;
}

std::vector<mlp_layer> random_network(std::size_t width, std::size_t layers, bool biased) {
    std::vector<mlp_layer> made;
    for (std::size_t i = 0; i < layers; ++i) {
        made.push_back({width, width, random_values(width * width, std::sqrt(6.0f / static_cast<float>(width))),
                        biased ? random_values(width, 0.1f) : std::vector<float>{},
                        i + 1 == layers ? activation::none : activation::relu});
    }
    return made;
}

// The kernels alone, launched as in a graph or a loop.
struct launcher {
    kernels::fused_mlp_call call;
    cudaStream_t on;

    void launch(const launch_command& command) const {
        void* arguments[] = {const_cast<kernels::fused_mlp_call*>(&call)};
        check(cudaLaunchKernel(command.device_function, dim3(command.grid.x), dim3(command.block.x), arguments,
                               command.shared_bytes, on));
    }
    static void allow(const launch_command& command) {
        check(cudaFuncSetAttribute(command.device_function, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
    }
};

double difference(const std::vector<half>& a, const std::vector<half>& b) {
    double distance = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        distance += std::pow(float{a[i]} - float{b[i]}, 2);
        norm += std::pow(float{b[i]}, 2);
    }
    return std::sqrt(distance / norm);
}

class layers_by_cublaslt {
public:
    layers_by_cublaslt(const std::vector<mlp_layer>& layers, std::size_t rows, stream home, cudaStream_t on) : on_(on) {
        for (const mlp_layer& layer : layers) {
            weights_.push_back(sync_on(upload(halves(layer.weight), {layer.weight.size()}), home));
            const auto& bias = layer.bias.empty() ? std::vector<float>(layer.out_features) : layer.bias;
            biases_.push_back(sync_on(upload(halves(bias), {bias.size()}), home));
            products_.push_back(std::make_unique<matmul_by_hand>(
                CUDA_R_16F, rows, layer.out_features, layer.in_features,
                layer.bias.empty() ? nullptr : biases_.back().device_data(), layer.after == activation::relu));
        }
        for (auto& each : between_) each = make_device<half>(rows * layers.front().out_features);
    }
    void choose(const half* x) {
        for (std::size_t i = 0; i < products_.size(); ++i) {
            products_[i]->choose(x, weights_[i].device_data(), between_[i % 2].get(), on_);
            x = between_[i % 2].get();
        }
    }
    const half* run(const half* x) {
        for (std::size_t i = 0; i < products_.size(); ++i) {
            products_[i]->run(x, weights_[i].device_data(), between_[i % 2].get(), on_);
            x = between_[i % 2].get();
        }
        return x;
    }

private:
    cudaStream_t on_;
    std::vector<tensor<half>> weights_, biases_;
    std::vector<std::unique_ptr<matmul_by_hand>> products_;
    device_array<half> between_[2];
};

std::vector<half> fetched(const half* from, std::size_t size) {
    std::vector<half> made(size);
    check(cudaMemcpy(made.data(), from, size * sizeof(half), cudaMemcpyDeviceToHost));
    return made;
}

void run_width(device& gpu, std::size_t width, std::size_t hidden, bool biased) {
    single_stream policy(gpu);
    stream home = policy.next();
    const auto on = static_cast<cudaStream_t>(home.native().handle);
    const auto layers = random_network(width, hidden + 1, biased);
    const auto network = sync(pack_mlp<half>(layers), policy);
    const auto x = sync(upload(halves(random_values(many_rows * width, 1)), {many_rows, width}), policy);
    auto out = sync(zeros<half>({many_rows, width}), policy);
    const launcher with{{x.device_data(), out.device_data(), network.image().device_data(), many_rows, network.form()},
                        on};
    const std::string axes = "{\"rows\": " + std::to_string(many_rows) + ", \"width\": " + std::to_string(width) +
                             ", \"hidden_layers\": " + std::to_string(hidden) +
                             ", \"type\": \"f16\", \"biased\": " + (biased ? "true" : "false");
    const std::string machine = gpu.properties().name;

    fused_mlp(home, x, network, out);
    check(cudaStreamSynchronize(on));
    const auto expected = fetched(out.device_data(), many_rows * width);
    layers_by_cublaslt library(layers, many_rows, home, on);
    library.choose(x.device_data());
    const double off = difference(fetched(library.run(x.device_data()), many_rows * width), expected);
    if (!(off < 5e-3)) throw std::runtime_error("cuBLASLt disagrees by " + std::to_string(off));

    const auto all = fused_mlp_variants(with.call, gpu.properties());
    std::vector<std::function<void()>> versions{
        [&] { fused_mlp(home, x, network, out); }, [&] { library.run(x.device_data()); },
        [&] {
            check(cudaMemcpyAsync(out.device_data(), x.device_data(), x.size_bytes(), cudaMemcpyDeviceToDevice, on));
        }};
    for (const fused_mlp_variant& each : all) {
        launcher::allow(each.command);
        check(cudaMemsetAsync(out.device_data(), 0xff, out.size_bytes(), on));
        with.launch(each.command);
        check(cudaStreamSynchronize(on));
        const double wrong = difference(fetched(out.device_data(), many_rows * width), expected);
        if (!(wrong < 1e-3)) throw std::runtime_error(each.name + " disagrees by " + std::to_string(wrong));
        versions.push_back([&] { with.launch(each.command); });
    }
    const auto times = device_medians(on, versions, 20);
    print({"fused_mlp", axes + ", \"baseline\": \"cuBLASLt, layer by layer\"}", times[0], "us", times[1], machine});
    print({"fused_mlp", axes + ", \"baseline\": \"copy of inputs to outputs\"}", times[0], "us", times[2], machine});
    for (std::size_t i = 0; i < all.size(); ++i) {
        print({"fused_mlp_variant", axes + ", \"variant\": \"" + all[i].name + "\"}", times[3 + i], "us", times[0],
               machine});
    }
}

void run_few_rows(device& gpu, std::size_t width, std::size_t rows, std::size_t hidden, bool biased = true) {
    single_stream policy(gpu);
    stream home = policy.next();
    const auto on = make_stream();
    const auto layers = random_network(width, hidden + 1, biased);
    const auto network = sync(pack_mlp<half>(layers), policy);
    const auto x = sync(upload(halves(random_values(rows * width, 1)), {rows, width}), policy);
    auto out = sync(zeros<half>({rows, width}), policy);
    const launcher with{{x.device_data(), out.device_data(), network.image().device_data(), rows, network.form()},
                        on.get()};
    const launch_command command = kernels::fused_mlp_on_hopper(with.call, kernels::fused_type::f16, gpu.properties());
    launcher::allow(command);
    const double ours = median_in_graph(on.get(), [&] { with.launch(command); }, 200);
    layers_by_cublaslt library(layers, rows, home, on.get());
    library.choose(x.device_data());
    const double theirs = median_in_graph(on.get(), [&] { library.run(x.device_data()); }, 50);
    print({"fused_mlp_in_graph",
           "{\"rows\": " + std::to_string(rows) + ", \"width\": " + std::to_string(width) + ", \"hidden_layers\": " +
               std::to_string(hidden) + ", \"type\": \"f16\", \"baseline\": \"cuBLASLt, layer by layer\"}",
           ours, "us", theirs, gpu.properties().name});
}

void run_all() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    for (const bool biased : {false, true}) {
        for (const std::size_t width : {64, 128, 256}) run_width(gpu, width, 4, biased);
    }
    run_few_rows(gpu, 64, 256, 4);
    run_few_rows(gpu, 64, 1, 4);
    run_few_rows(gpu, 64, 8192, 4);
    run_few_rows(gpu, 128, 256, 4);
    run_few_rows(gpu, 256, 256, 4);
}

}  // namespace

void run_fused_mlp() { run_all(); }
}  // namespace sluice::bench

int main() try { sluice::bench::run_fused_mlp(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
