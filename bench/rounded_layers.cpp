// SPDX-License-Identifier: Apache-2.0
// Perceptrons with rounded factors on a CPU device: each kernel with products of its own, in turn (AMX and
// AVX-512-BF16, or AMX and AVX-512-VNNI). One compiled call; as many workers as the process has cores (taskset). The
// baseline is the kernel that is named last.
//
//     bench_rounded_layers             784-512-512-10 and 784-2048-2048-10, at 1 to 1024 rows
//     bench_rounded_layers --sharing   the first kernel of bf16 with other ways to divide the work; the baseline is its
//     own
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rounded_layers/rounded_layers.hpp"
#include "kernels/rounded_layers/tile_permission.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

namespace sluice::bench {
namespace {

using kernels::rounded_kernel, kernels::rounded_type;

std::vector<float> random_numbers(std::size_t count, float deviation) {
    static std::mt19937 generator(7);
    std::normal_distribution<float> any(0, deviation);
    std::vector<float> made(count);
    for (float& each : made) each = any(generator);
    return made;
}

struct perceptron {
    std::string name;
    std::vector<std::size_t> widths;
};
std::vector<mlp_layer> layers_of(const perceptron& of) {
    std::vector<mlp_layer> made;
    for (std::size_t i = 0; i + 1 < of.widths.size(); ++i) {
        const std::size_t in = of.widths[i], out = of.widths[i + 1];
        made.push_back({in, out, random_numbers(in * out, std::sqrt(2.0f / static_cast<float>(in))),
                        random_numbers(out, 0.05f), i + 2 == of.widths.size() ? activation::none : activation::relu});
    }
    return made;
}

std::string text_of(const kernels::rounded_sharing& of) {
    return "\"block\": " + std::to_string(of.block) + ", \"least_rows\": " + std::to_string(of.least_rows) +
           ", \"least_products\": " + std::to_string(of.least_products);
}

// The memory of a CPU device is the host's.
std::vector<float> values_of(const tensor<float>& of) { return {of.device_data(), of.device_data() + of.size()}; }

// The same call with each kernel, in turn; the baseline of all is the last one. `names` are parameters in JSON.
void compare(const perceptron& network, rounded_type type, std::size_t rows, const std::vector<rounded_kernel>& all,
             const std::vector<std::string>& names) {
    runtime machine({.cuda = false});
    device& on = machine.find("cpu:0");
    round_robin pool(on, 1);
    const std::vector<mlp_layer> layers = layers_of(network);
    const kernels::rounded_form form = kernels::form_of(type, layers);
    const tensor<std::byte> image = sync(upload(kernels::rounded_image(type, layers)), pool);
    const std::size_t in = network.widths.front(), out = network.widths.back();
    const tensor<float> x = sync(upload(random_numbers(rows * in, 1), {rows, in}), pool);
    std::vector<tensor<float>> outputs;
    std::vector<std::function<void()>> versions;
    outputs.reserve(all.size());
    for (const rounded_kernel& each : all) {
        outputs.push_back(sync(uninitialized<float>({rows, out}), pool));
        tensor<float>& y = outputs.back();
        const auto submit = [&x, &form, &image, &y, &each] {
            return with_context([&](execution_context& context) {
                kernels::submit_rounded_layers(context.stream(), x, form, image, y, each);
            });
        };
        versions.emplace_back([&pool, call = compile(pool, submit)] { sync(call(), pool); });
    }
    const std::vector<double> times = medians(versions, rows >= 512 ? 31 : 301, 10);
    const std::vector<float> first = values_of(outputs.front());
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::vector<float> other = values_of(outputs[i]);
        for (std::size_t at = 0; at < first.size(); ++at)
            if (!(std::fabs(first[at] - other[at]) <= 0.05f)) throw std::runtime_error("the versions do not agree");
        print({"rounded_layers",
               "{\"network\": \"" + network.name + "\", \"rows\": " + std::to_string(rows) + ", " + names[i] + "}",
               times[i], "us", times.back(),
               on.properties().name + ", " + std::to_string(on.properties().compute_units) + " cores"});
    }
}

// Kernels with products of their own; the fastest, where none has.
std::vector<rounded_kernel> best_kernels(rounded_type type) {
    const auto all = kernels::rounded_kernels(type);
    std::vector<rounded_kernel> made{all.front()};
    for (const rounded_kernel& each : all.subspan(1))
        if (each.has_own_products) made.push_back(each);
    return made;
}

void compare_kernels(const perceptron& network, rounded_type type, std::size_t rows) {
    const std::vector<rounded_kernel> all = best_kernels(type);
    std::vector<std::string> names;
    for (const rounded_kernel& each : all) names.push_back("\"kernel\": \"" + std::string(each.name) + "\"");
    compare(network, type, rows, all, names);
}

void compare_sharing(const perceptron& network, rounded_type type, std::size_t rows) {
    const rounded_kernel first = best_kernels(type).front();
    std::vector<rounded_kernel> all;
    std::vector<std::string> names;
    const auto add = [&](const kernels::rounded_sharing& sharing) {
        all.push_back(first);
        all.back().sharing = sharing;
        names.push_back("\"kernel\": \"" + std::string(first.name) + "\", " + text_of(sharing));
    };
    for (const std::size_t block : {32, 48, 64, 96, 128, 192, 256})
        for (const std::size_t millions : {1, 2, 4, 8, 32})
            add({block, std::min<std::size_t>(block, 64), millions << 20, first.sharing.counted_rows});
    add(first.sharing);
    compare(network, type, rows, all, names);
}

void compare_all(bool is_sharing) {
    const std::string& refused = kernels::permission_for_tiles().refused;
    if (!refused.empty()) std::fprintf(stderr, "without AMX: %s\n", refused.c_str());
    for (const perceptron& network :
         {perceptron{"784-512-512-10", {784, 512, 512, 10}}, {"784-2048-2048-10", {784, 2048, 2048, 10}}}) {
        for (const std::size_t rows : {1, 8, 64, 1024}) {
            if (is_sharing) {
                compare_sharing(network, rounded_type::bf16, rows);
            } else {
                compare_kernels(network, rounded_type::bf16, rows);
                compare_kernels(network, rounded_type::int8, rows);
            }
        }
    }
}

}  // namespace
}  // namespace sluice::bench

int main(int count, char** words) try {
    const bool is_sharing = count == 2 && std::string_view(words[1]) == "--sharing";
    if (count != 1 && !is_sharing) throw std::runtime_error("usage: bench_rounded_layers [--sharing]");
    sluice::bench::compare_all(is_sharing);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_rounded_layers: %s\n", failure.what());
    return 1;
}
