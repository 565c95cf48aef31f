// SPDX-License-Identifier: Apache-2.0
// Recurrent layers on a GPU, from an input in host memory to the last output there: one launch of a graph.
//
//     bench_recurrent [CALLS]
//
// Prints medians of that many calls, in microseconds.
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/network.hpp"
#include "sluice/sluice.hpp"
#include "support/timing.hpp"

namespace {

using namespace sluice;

struct network_size {
    std::string op;
    std::size_t layers, hidden, steps;
};

template <typename T>
nn::constant random_constant(std::vector<std::size_t> shape, float most) {
    static std::minstd_rand random(1);
    std::uniform_real_distribution<float> any(-most, most);
    std::size_t count = 1;
    for (const std::size_t each : shape) count *= each;
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(T(any(random)));
    return {io::dtype_of<T>, std::move(shape),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()), count * sizeof(T))};
}

// Layers one after the other; the output is that of the last step of the last one.
template <typename T>
nn::model model_of(const network_size& of) {
    nn::model made;
    made.path = "recurrent.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {{"x0", io::dtype_of<T>, {}}};
    const std::vector<std::int64_t> axis{1};
    made.body.constants.emplace(
        "axis",
        nn::constant{
            io::dtype::i64, {1}, std::make_shared<const std::string>(reinterpret_cast<const char*>(axis.data()), 8)});
    const std::size_t gates = of.op == "LSTM" ? 4 : 3, rows = gates * of.hidden;
    const float most = 1 / std::sqrt(static_cast<float>(of.hidden));
    for (std::size_t i = 0; i < of.layers; ++i) {
        const std::string number = std::to_string(i);
        made.body.constants.emplace("w" + number, random_constant<T>({1, rows, of.hidden}, most));
        made.body.constants.emplace("r" + number, random_constant<T>({1, rows, of.hidden}, most));
        made.body.constants.emplace("b" + number, random_constant<T>({1, 2 * rows}, most));
        nn::node layer, squeeze;
        layer.op = of.op;
        layer.inputs = {"x" + number, "w" + number, "r" + number, "b" + number};
        layer.outputs = {"y" + number, "h" + number};
        layer.attributes["hidden_size"] = static_cast<std::int64_t>(of.hidden);
        if (of.op == "GRU") layer.attributes["linear_before_reset"] = std::int64_t{1};  // as PyTorch's
        squeeze.op = "Squeeze";
        squeeze.inputs = {"y" + number, "axis"};
        squeeze.outputs = {"x" + std::to_string(i + 1)};
        made.body.nodes.push_back(std::move(layer));
        if (i + 1 < of.layers) made.body.nodes.push_back(std::move(squeeze));
    }
    made.body.outputs = {{"h" + std::to_string(of.layers - 1), io::dtype_of<T>, {}}};
    return made;
}

template <typename T>
double microseconds_of(scheduling_policy& pool, const network_size& of, std::size_t rows, std::size_t calls) {
    const nn::network network = sync(nn::make_network(model_of<T>(of)), pool);
    const auto fast = compile(
        pool,
        [&](tensor<T> x) {
            return network.forward({nn::any_tensor(std::move(x)).with_shape({of.steps, rows, of.hidden})})
                .and_then([](std::vector<nn::any_tensor> values) { return download(values.at(0).on_device<T>()); });
        },
        host_input<T>({of.steps * rows, of.hidden}));
    const std::vector<T> input(of.steps * rows * of.hidden, T(0.25f));
    return bench::medians({[&] { sync(fast(input), pool); }}, calls).front();
}

void print_times(std::size_t calls) {
    runtime machine;
    single_stream pool(machine.default_device());
    std::printf("%-34s %8s %8s\n", machine.default_device().properties().name.c_str(), "f32", "f16");
    for (const network_size& of :
         {network_size{"GRU", 1, 128, 50}, network_size{"LSTM", 2, 128, 100}, network_size{"LSTM", 1, 256, 100},
          network_size{"LSTM", 1, 512, 50}, network_size{"GRU", 1, 1024, 50}}) {
        for (const std::size_t rows : {1, 8, 32, 128}) {
            std::printf("%-4s %zu x %4zu, %3zu steps, %3zu rows %11.1f %8.1f\n", of.op.c_str(), of.layers, of.hidden,
                        of.steps, rows, microseconds_of<float>(pool, of, rows, calls),
                        microseconds_of<half>(pool, of, rows, calls));
            std::fflush(stdout);
        }
    }
}

}  // namespace

int main(int count, char** words) try {
    print_times(count > 1 ? std::stoul(words[1]) : 200);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_recurrent: %s\n", failure.what());
    return 1;
}
