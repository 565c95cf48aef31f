// SPDX-License-Identifier: Apache-2.0
// One call of a network on a CPU device in bf16, f16 and int8, in turn with f32: from inputs in host memory to outputs
// there, as a compiled graph and by run. The baseline is f32. With the difference of the outputs.
//
//     bench_network_precision                  perceptrons with random weights, at 1 to 1024 rows
//     bench_network_precision MODEL.onnx ROWS  this network, at this many rows
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sluice/graph/executable_graph.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/precision_choice.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

std::mt19937 generator(7);

std::vector<float> random_numbers(std::size_t count, float deviation) {
    std::normal_distribution<float> any(0, deviation);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}

nn::constant constant_of(std::size_t count, float deviation, std::vector<std::size_t> shape) {
    const std::vector<float> values = random_numbers(count, deviation);
    return {io::dtype::f32, std::move(shape),
            std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()), 4 * count)};
}

// Dense layers with ReLU between them; weights keep the size of their inputs.
nn::model perceptron(const std::vector<std::size_t>& widths) {
    nn::model made;
    made.path = "perceptron";
    made.opsets = {{"", 17}};
    const auto shape = [](std::size_t width) {
        return std::vector<nn::dimension>{{.length = {}, .name = "rows"}, {.length = width, .name = {}}};
    };
    made.body.inputs = {{"x", io::dtype::f32, shape(widths.front())}};
    made.body.outputs = {{"y", io::dtype::f32, shape(widths.back())}};
    std::string value = "x";
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
        const std::string n = std::to_string(i);
        const bool is_last = i + 2 == widths.size();
        const std::size_t in = widths[i], out = widths[i + 1];
        made.body.constants.insert(
            {"w" + n, constant_of(in * out, std::sqrt(2.0f / static_cast<float>(in)), {out, in})});
        made.body.constants.insert({"b" + n, constant_of(out, 0.05f, {out})});
        nn::node product;
        product.op = "Gemm";
        product.inputs = {value, "w" + n, "b" + n};
        product.outputs = {is_last ? "y" : "p" + n};
        product.attributes["transB"] = std::int64_t{1};
        made.body.nodes.push_back(std::move(product));
        if (is_last) break;
        nn::node after;
        after.op = "Relu";
        after.inputs = {"p" + n};
        after.outputs = {value = "r" + n};
        made.body.nodes.push_back(std::move(after));
    }
    return made;
}

std::vector<nn::any_tensor> inputs_of(const nn::model& of, std::size_t rows) {
    std::vector<nn::any_tensor> made;
    for (const nn::value_info& each : of.body.inputs) {
        if (!each.shape || each.type != io::dtype::f32)
            throw std::runtime_error("an input is not f32 of a known shape");
        std::vector<std::size_t> lengths;
        std::size_t size = 1;
        for (const nn::dimension& one : *each.shape) size *= lengths.emplace_back(one.length.value_or(rows));
        std::vector<float> values = random_numbers(size, 1);
        for (float& value : values) value = std::abs(value);  // as pixels are
        made.emplace_back(values, lengths);
    }
    return made;
}

void measure(const std::string& name, const nn::model& model, std::size_t rows, scheduling_policy& pool,
             const device& on) {
    constexpr nn::precision all[] = {nn::precision::f32, nn::precision::bf16, nn::precision::f16, nn::precision::int8};
    const std::vector<nn::any_tensor> inputs = inputs_of(model, rows);
    std::vector<nn::network> networks;
    std::vector<std::vector<nn::any_tensor>> outputs;
    for (const nn::precision each : all) {
        networks.push_back(sync(nn::make_network(model, {.precision = each}), pool));
        outputs.push_back(sync(networks.back().run(inputs), pool));
    }
    std::vector<std::function<void()>> runs, launches;
    for (const nn::network& each : networks) {
        runs.emplace_back([&] { sync(each.run(inputs), pool); });
        launches.emplace_back([&pool, fast = compile(pool, [&] { return each.run(inputs); })] { sync(fast(), pool); });
    }
    const std::size_t rounds = rows >= 512 ? 15 : 101;
    const std::vector<double> of_runs = medians(runs, rounds, 5), of_launches = medians(launches, rounds, 5);
    for (std::size_t i = 1; i < networks.size(); ++i) {
        const nn::rounding_report& made = networks[i].rounding();
        const nn::output_difference difference = nn::difference_of(outputs[0], outputs[i]);
        char numbers[200];
        std::snprintf(numbers, sizeof(numbers), "\"relative_difference\": %.3g, \"same_largest\": \"%zu of %zu\"",
                      difference.relative, difference.agreeing_rows, difference.rows);
        for (const bool is_run : {false, true}) {
            print({"network_precision",
                   "{\"network\": \"" + name + "\", \"rows\": " + std::to_string(rows) + ", \"precision\": \"" +
                       std::string(nn::to_string(all[i])) + "\", \"how\": \"" + made.support.how + "\", \"call\": \"" +
                       (is_run ? "run" : "compiled") + "\", " + numbers + ", \"baseline\": \"f32\"}",
                   is_run ? of_runs[i] : of_launches[i], "us", is_run ? of_runs[0] : of_launches[0],
                   on.properties().name + ", " + std::to_string(on.properties().compute_units) + " cores"});
        }
    }
}

void measure_perceptrons(scheduling_policy& pool, const device& on) {
    for (const auto& widths : {std::vector<std::size_t>{64, 64, 64, 10}, {784, 512, 512, 10}, {784, 2048, 2048, 10}}) {
        std::string name;
        for (const std::size_t each : widths) name += (name.empty() ? "" : "-") + std::to_string(each);
        const nn::model model = perceptron(widths);
        for (const std::size_t rows : {1, 8, 64, 1024}) measure(name, model, rows, pool, on);
    }
}

}  // namespace
}  // namespace sluice::bench

int main(int count, char** words) try {
    using namespace sluice;
    if (count != 1 && count != 3) throw std::runtime_error("usage: bench_network_precision [MODEL.onnx ROWS]");
    runtime machine({.cuda = false});
    device& on = machine.find("cpu:0");
    round_robin pool(on, 1);
    if (count == 1) {
        bench::measure_perceptrons(pool, on);
    } else {
        bench::measure(words[1], nn::load_onnx(words[1]), std::stoul(words[2]), pool, on);
    }
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_network_precision: %s\n", failure.what());
    return 1;
}
