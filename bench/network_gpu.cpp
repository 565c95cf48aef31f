// SPDX-License-Identifier: Apache-2.0
// One call of an ONNX network on a GPU, from an input in pinned memory to outputs there: one launch of a graph.
//
//     bench_network_gpu MODEL PRECISION ROWS[,ROWS ...]     PRECISION is f32, f16, bf16 or int8
//
// The rows of the input, for which the network is prepared; of several numbers, a graph is compiled in which one piece
// is computed while the next one is copied.
//
// Prints a line when it is ready, and answers lines of its standard input, so that another program may run in between:
//     run N           N calls; prints their median in microseconds
//     output FILE     writes the first output's numbers, f32
//     steps           prints how the stretches of convolutions are carried out, then an empty line
// torch_convolutions.py does this, with PyTorch in turn.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "nn/images/short_stretch.hpp"
#include "nn/prepared_network.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/sluice.hpp"
#include "support/timing.hpp"

namespace {

using namespace sluice;

// The same numbers as torch_convolutions.py gives PyTorch.
void write_input(std::span<float> to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
}

using lengths = std::vector<std::size_t>;

// Of this many rows.
lengths input_shape(const nn::network& network, std::size_t rows) {
    if (network.inputs().size() != 1 || !network.inputs()[0].shape || network.inputs()[0].type != io::dtype::f32)
        throw std::runtime_error("the network does not take one input of f32");
    lengths made;
    for (const nn::dimension& each : *network.inputs()[0].shape) made.push_back(each.length.value_or(rows));
    return made;
}

lengths numbers_of(const std::string& text) {
    lengths made;
    std::istringstream from(text);
    for (std::string each; std::getline(from, each, ',');) made.push_back(std::stoul(each));
    return made;
}

std::string text_of_steps(const nn::network& network, const nn::any_tensor& input) {
    std::string text;
    for (const auto& each : network.inside().body().steps) {
        text += each.label + (each.stretch != nullptr ? ":\n" : "\n");
        const auto* const stretch = dynamic_cast<const nn::detail::short_image_stretch*>(each.stretch.get());
        if (stretch != nullptr && stretch->body().inputs.size() == 1)
            text += stretch->text("", std::vector<nn::any_tensor>{input});
    }
    return text;
}

// The first outputs of all pieces.
auto forward(const nn::network& network, std::vector<tensor<float>> pieces) {
    return with_context([&network, pieces = std::move(pieces)](execution_context& context) mutable {
        std::vector<tensor<float>> outputs;
        for (tensor<float>& each : pieces) {
            const std::size_t rows = each.rows();
            const nn::any_tensor x = nn::any_tensor(std::move(each)).with_shape(input_shape(network, rows));
            const nn::any_tensor y = network.forward({x}).submit(context).at(0);
            outputs.emplace_back(buffer<float>(y.shared_memory(), y.elements()), shape{rows, y.elements() / rows});
        }
        return download_buffer(std::move(outputs));
    });
}

struct network_calls {
    std::function<void()> run;
    std::function<std::span<const float>()> output;  // the first one
};

network_calls prepared_calls(const nn::network& network, std::size_t rows) {
    const nn::input_shape shape{network.inputs()[0].name, input_shape(network, rows)};
    const auto fast = std::make_shared<nn::prepared>(network.prepare(std::span(&shape, 1)));
    write_input(fast->input<float>(0));
    fast->run();
    return {[fast] { fast->run(); }, [fast] { return fast->output<float>(0); }};
}

network_calls compiled_calls(const nn::network& network, single_stream& pool, std::size_t rows, const lengths& pieces) {
    const std::size_t elements = nn::any_tensor::of_shape(io::dtype::f32, input_shape(network, rows)).elements();
    const auto fast = compile(
        pool, [&](std::vector<tensor<float>> x) { return forward(network, std::move(x)); },
        host_input_in_pieces<float>({rows, elements / rows}, pieces));
    host_buffer<float> filled(pool.next(), elements);
    write_input(filled.write());
    const shared input(std::move(filled));
    const auto last = std::make_shared<host_buffer<float>>(sync(fast(input), pool));
    return {[=, &pool] { *last = sync(fast(input), pool); }, [last] { return last->read(); }};
}

void serve(const std::string& path, nn::precision what, const lengths& pieces) {
    runtime machine;
    single_stream pool(machine.find("cuda:0"));
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const nn::network network = sync(nn::make_network(nn::load_onnx(path), {.precision = what}), pool);
    const double loaded = seconds();
    const std::size_t rows = std::accumulate(pieces.begin(), pieces.end(), std::size_t{0});
    const auto calls = pieces.size() == 1 ? prepared_calls(network, rows) : compiled_calls(network, pool, rows, pieces);
    std::printf("ready: loaded in %.2f s, compiled in %.2f s\n", loaded, seconds() - loaded);
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string word, argument;
        words >> word >> argument;
        if (word == "run") {
            std::printf("%.3f\n", bench::medians({calls.run}, std::stoul(argument), 2).front());
        } else if (word == "output") {
            const std::span<const float> numbers = calls.output();
            std::ofstream(argument, std::ios::binary)
                .write(reinterpret_cast<const char*>(numbers.data()),
                       static_cast<std::streamsize>(numbers.size_bytes()));
            std::puts("written");
        } else if (word == "steps") {
            const auto piece = nn::any_tensor::of_shape(io::dtype::f32, input_shape(network, pieces[0]));
            std::puts(text_of_steps(network, piece).c_str());
        } else {
            throw std::runtime_error("unknown line: " + line);
        }
        std::fflush(stdout);
    }
}

}  // namespace

int main(int count, char** words) try {
    if (count != 4) throw std::runtime_error("usage: bench_network_gpu MODEL PRECISION ROWS[,ROWS ...]");
    const auto what = nn::precision_from_string(words[2]);
    if (!what) throw std::runtime_error("the precision is f32, f16, bf16 or int8");
    serve(words[1], *what, numbers_of(words[3]));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_network_gpu: %s\n", failure.what());
    return 1;
}
