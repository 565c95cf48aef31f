// SPDX-License-Identifier: Apache-2.0
// async_mlp: batches run through a small network concurrently, on a pool of four streams. They are spawned as futures
// and awaited by a coroutine. The only thread that waits for the device is main, once, at the end.
//
//     async_mlp [--dim N] [--batches N] [--kernels naive|tiled|library] [--timeline FILE.svg]
//
// The pipeline, kernels and host code together, is in async_mlp.hpp, so that the simulator's tests can use it too. It
// runs on a GPU if there is one, otherwise on the CPU, and prints the same on both (with --kernels library the last
// digits may differ).

#include "async_mlp.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/async/sync_wait.hpp"

using namespace async_mlp;

namespace {

struct options {
    std::size_t dim = 64;
    std::size_t batches = 4;
    product kernels = product::naive;
    std::string timeline;
};

std::size_t number(std::string_view name, std::string_view text, std::size_t most) {
    std::size_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || value == 0 || value > most) {
        throw std::invalid_argument(std::string(name) + " is a number from 1 to " + std::to_string(most) + ", not '" +
                                    std::string(text) + "'");
    }
    return value;
}

options parse(int count, char** arguments) {
    options made;
    for (int i = 1; i < count; i += 2) {
        const std::string_view name = arguments[i];
        if (name != "--dim" && name != "--batches" && name != "--kernels" && name != "--timeline")
            throw std::invalid_argument("the options are --dim, --batches, --kernels, --timeline; not '" +
                                        std::string(name) + "'");
        if (i + 1 == count) throw std::invalid_argument(std::string(name) + " needs a value");
        const std::string_view text = arguments[i + 1];
        if (name == "--dim") made.dim = number(name, text, 4096);
        if (name == "--batches") made.batches = number(name, text, 1000);
        if (name == "--timeline") made.timeline = text;
        if (name != "--kernels") continue;
        if (text != "naive" && text != "tiled" && text != "library")
            throw std::invalid_argument("--kernels is naive, tiled or library, not '" + std::string(text) + "'");
        made.kernels = text == "naive" ? product::naive : text == "tiled" ? product::tiled : product::library;
    }
    return made;
}

// The shortest decimal that reads back as the same float.
std::string to_text(float value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    std::string shortest(text, end);
    return shortest.find_first_of(".en") == std::string::npos ? shortest + ".0" : shortest;
}

bool print(std::size_t batch, const std::vector<float>& output) {
    bool relu_ok = true;
    for (const float each : output) relu_ok = relu_ok && each >= 0;
    const std::size_t count = std::min<std::size_t>(output.size(), 8);
    std::string first;
    for (std::size_t i = 0; i < count; ++i) first += (i == 0 ? "" : ", ") + to_text(output[i]);
    std::printf("Batch %zu: %zu elements, first %zu = [%s] [%s]\n", batch, output.size(), count, first.c_str(),
                relu_ok ? "ReLU OK" : "ReLU FAILED");
    return relu_ok;
}

void print_references(const char* when, const shared_tensor<float>& w0, const shared_tensor<float>& w1) {
    std::printf("%s: w0 %s has %ld reference%s, w1 %s has %ld\n", when, to_string(w0->shape()).c_str(), w0.use_count(),
                w0.use_count() == 1 ? "" : "s", to_string(w1->shape()).c_str(), w1.use_count());
}

int run(const options& chosen) {
    trace_recorder recorder;
    runtime machine({.trace = chosen.timeline.empty() ? nullptr : &recorder});
    constexpr std::size_t streams = 4;
    round_robin pool(machine.default_device(), streams);
    std::printf("async_mlp: %zu batches of %zu x %zu numbers on %zu streams\n", chosen.batches, chosen.dim, chosen.dim,
                streams);
    const auto [w0, w1] = upload_weights(chosen.dim, pool);
    print_references("Weights are uploaded", w0, w1);
    if (!chosen.timeline.empty()) {  // the picture leaves out what happens only once: kernels loaded, memory taken
        sync_wait(outputs_of(launch_all(describe(chosen.batches, w0, w1, chosen.kernels), pool)));
        recorder.take();
    }
    auto described = describe(chosen.batches, w0, w1, chosen.kernels);
    print_references("Batches are described, and nothing has run", w0, w1);

    auto running = launch_all(std::move(described), pool);
    std::printf("Batches are launched: %zu futures, and no thread has waited\n", running.size());
    const std::vector<std::vector<float>> outputs = sync_wait(outputs_of(std::move(running)));
    bool all_ok = true;
    for (std::size_t b = 0; b < outputs.size(); ++b) all_ok = print(b, outputs[b]) && all_ok;
    print_references("Batches are over", w0, w1);
    if (!chosen.timeline.empty()) save_timeline(recorder.take(), chosen.timeline, {.title = "async_mlp"});
    std::puts(all_ok ? "SUCCESS: All batches completed." : "FAILED: a batch is wrong.");
    return all_ok ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
    return run(parse(count, arguments));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "async_mlp: %s\n", failure.what());
    return 1;
}
