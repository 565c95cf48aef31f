// SPDX-License-Identifier: Apache-2.0
// A whole network of 8-bit numbers in one kernel, 2^20 rows, inputs and outputs as wide as the hidden layers: f8_e4m3
// and std::int8_t, the same network in f16, variants for Hopper, and a copy of as many bytes as must move. Every
// version is compared with the body for a CPU before timing: integers bit for bit, f8 within what its sums may differ
// by.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>

#include "kernels/quantized_mlp/quantized_mlp_dispatch.hpp"
#include "quantized_mlp.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/result.hpp"

namespace sluice::bench {
namespace {

constexpr std::size_t rows = std::size_t{1} << 20, compared_rows = 3000;

std::vector<float> random_values(std::size_t size, float scale) {
    static std::mt19937 generator(12);
    std::uniform_real_distribution<float> any(-scale, scale);
    std::vector<float> made(size);
    for (float& each : made) each = any(generator);
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

template <typename T>
std::vector<T> in_type(const std::vector<float>& values, float scale = 1) {
    std::vector<T> made;
    made.reserve(values.size());
    for (const float each : values) {
        if constexpr (sizeof(T) == 1) {
            made.push_back(kernels::rounded_to_8_bits<T>(each * (1 / scale)));
        } else {
            made.push_back(T(each));
        }
    }
    return made;
}

template <typename T>
void require_agreement(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
    double distance = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        distance += std::pow(static_cast<float>(got[i]) - static_cast<float>(expected[i]), 2);
        norm += std::pow(static_cast<float>(expected[i]), 2);
    }
    const double off = std::sqrt(distance / norm);
    if (!(off <= (std::same_as<T, f8_e4m3> ? 0.03 : 0)))
        throw std::runtime_error(what + " is off by " + std::to_string(off));
    std::fprintf(stderr, "%s: off by %.3g\n", what.c_str(), off);
}

// The last rows of a result, where a tile is whole, and where a group has taken many.
template <typename T>
std::vector<T> last_rows(const tensor<T>& from, std::size_t width) {
    std::vector<T> made(compared_rows * width);
    check(cudaMemcpy(made.data(), from.device_data() + (rows - compared_rows) * width, made.size() * sizeof(T),
                     cudaMemcpyDeviceToHost));
    return made;
}

struct shape_of_network {
    std::size_t width, hidden;
    bool biased;
};

class f16_network {
public:
    f16_network(const std::vector<mlp_layer>& layers, const std::vector<float>& x, std::size_t width,
                scheduling_policy& policy)
        : network_(sync(pack_mlp<half>(layers), policy)),
          x_(sync(upload(in_type<half>(x), {rows, width}), policy)),
          out_(sync(zeros<half>({rows, width}), policy)) {}
    void run(stream on) { fused_mlp(on, x_, network_, out_); }

private:
    packed_mlp<half> network_;
    tensor<half> x_, out_;
};

template <typename T>
void run_type(runtime& all_devices, const shape_of_network& of) {
    device& gpu = all_devices.find("cuda:0");
    single_stream policy(gpu);
    stream home = policy.next();
    const auto on = static_cast<cudaStream_t>(home.native().handle);
    const auto layers = random_network(of.width, of.hidden + 1, of.biased);
    const auto values = random_values(rows * of.width, 1);
    const mlp_scales scales = calibrate_mlp<T>(layers, std::span<const float>(values).first(compared_rows * of.width));
    const auto numbers = in_type<T>(values, scales.input);
    const auto network = sync(pack_quantized_mlp<T>(layers, scales), policy);
    const auto x = sync(upload(numbers, {rows, of.width}), policy);
    auto out = sync(upload(std::vector<T>(rows * of.width), {rows, of.width}), policy);
    const std::string type = std::same_as<T, f8_e4m3> ? "f8" : "int8";

    single_stream host(all_devices.find("cpu:0"));
    const std::vector<T> some(numbers.end() - static_cast<std::ptrdiff_t>(compared_rows * of.width), numbers.end());
    const auto on_cpu = sync(pack_quantized_mlp<T>(layers, scales), host);
    const auto expected =
        sync(upload(some, {compared_rows, of.width}).and_then(fused_mlp(on_cpu)).and_then(download), host);
    fused_mlp(home, x, network, out);
    check(cudaStreamSynchronize(on));
    const std::string what = type + " " + std::to_string(of.width) + (of.biased ? " biased" : "");
    require_agreement(last_rows(out, of.width), expected, what);

    f16_network in_f16(layers, values, of.width, policy);
    std::vector<std::function<void()>> versions{
        [&] { fused_mlp(home, x, network, out); }, [&] { in_f16.run(home); },
        [&] {
            check(cudaMemcpyAsync(out.device_data(), x.device_data(), x.size_bytes(), cudaMemcpyDeviceToDevice, on));
        }};
    kernels::quantized_mlp_call call{x.device_data(), out.device_data(), network.image().device_data(), rows,
                                     network.form()};
    std::vector<quantized_mlp_variant> all;
    if (std::same_as<T, f8_e4m3> && gpu.properties().compute_capability == 90) {
        all = quantized_mlp_variants(call, gpu.properties());
    }
    for (const quantized_mlp_variant& each : all) {
        check(cudaFuncSetAttribute(each.command.device_function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   227 * 1024));
        const auto launch = [&] {
            void* arguments[] = {&call};
            check(cudaLaunchKernel(each.command.device_function, dim3(each.command.grid.x), dim3(each.command.block.x),
                                   arguments, each.command.shared_bytes, on));
        };
        check(cudaMemsetAsync(out.device_data(), 0x55, out.size_bytes(), on));
        launch();
        check(cudaStreamSynchronize(on));
        require_agreement(last_rows(out, of.width), expected, what + ", " + each.name);
        versions.push_back(launch);
    }
    const auto times = device_medians(on, versions, 20);
    const std::string axes = "{\"rows\": " + std::to_string(rows) + ", \"width\": " + std::to_string(of.width) +
                             ", \"hidden_layers\": " + std::to_string(of.hidden) + ", \"type\": \"" + type +
                             "\", \"biased\": " + (of.biased ? "true" : "false");
    const std::string machine = gpu.properties().name;
    print({"quantized_mlp", axes + ", \"baseline\": \"f16\"}", times[0], "us", times[1], machine});
    print(
        {"quantized_mlp", axes + ", \"baseline\": \"copy of inputs to outputs\"}", times[0], "us", times[2], machine});
    for (std::size_t i = 0; i < all.size(); ++i) {
        print({"quantized_mlp_variant", axes + ", \"variant\": \"" + all[i].name + "\"}", times[3 + i], "us", times[0],
               machine});
    }
}

}  // namespace

void run_quantized_mlp() {
    runtime machine;
    for (const bool biased : {true, false}) {
        for (const std::size_t width : {64, 128, 256}) {
            const shape_of_network of{width, width == 256 ? std::size_t{2} : std::size_t{4}, biased};
            run_type<f8_e4m3>(machine, of);
            run_type<std::int8_t>(machine, of);
        }
    }
}

}  // namespace sluice::bench

int main() try { sluice::bench::run_quantized_mlp(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
