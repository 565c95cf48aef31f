// SPDX-License-Identifier: Apache-2.0
// async_mlp: batches run through a small network concurrently, on a pool of four streams. They are spawned as futures
// and awaited by a coroutine. The only thread that waits for the device is main, once, at the end.
//
//     async_mlp [--dim N] [--batches N] [--kernels naive|tiled|library] [--devices N] [--timeline FILE.svg]
//
// With --devices 2 the even batches go to the first device and the odd ones to the second, each with weights of its
// own; with fewer GPUs, one GPU acts as several, and without a GPU there are several virtual CPU devices. With
// --kernels the time of the kernels is printed too, on standard error.
//
// The pipeline, kernels and host code together, is in async_mlp.hpp, so that the simulator's tests can use it too. It
// runs on a GPU if there is one, otherwise on the CPU, and prints the same on both (with --kernels library the last
// digits may differ).

#include "async_mlp.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/async/sync_wait.hpp"

using namespace async_mlp;

namespace {

struct options {
    std::size_t dim = 64;
    std::size_t batches = 4;
    std::optional<product> kernels;
    std::size_t devices = 1;
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
        if (name != "--dim" && name != "--batches" && name != "--kernels" && name != "--devices" &&
            name != "--timeline")
            throw std::invalid_argument("the options are --dim, --batches, --kernels, --devices, --timeline; not '" +
                                        std::string(name) + "'");
        if (i + 1 == count) throw std::invalid_argument(std::string(name) + " needs a value");
        const std::string_view text = arguments[i + 1];
        if (name == "--dim") made.dim = number(name, text, 4096);
        if (name == "--batches") made.batches = number(name, text, 1000);
        if (name == "--devices") made.devices = number(name, text, 16);
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

// The weights on one device, and the streams there.
struct replica {
    scheduling_policy& pool;
    shared_tensor<float> w0, w1;
};

std::string lengths(const shape& of) {
    std::string text;
    for (std::size_t i = 0; i < of.rank(); ++i) text += (i == 0 ? "" : "x") + std::to_string(of[i]);
    return text;
}

void print_weights(const std::vector<replica>& replicas) {
    for (std::size_t i = 0; i < replicas.size(); ++i) {
        const std::string where = replicas.size() == 1 ? "device" : "device " + std::to_string(i);
        const auto print = [&](const char* name, const shared_tensor<float>& weight) {
            std::printf("%s: %s on %s (use_count=%ld)\n", name, lengths(weight->shape()).c_str(), where.c_str(),
                        weight.use_count());
        };
        print("W0", replicas[i].w0);
        print("W1", replicas[i].w1);
    }
}

std::string use_counts(const std::vector<replica>& replicas) {
    std::string text;
    for (const replica& each : replicas)
        text += (text.empty() ? "use_count=" : " and ") + std::to_string(each.w0.use_count());
    return text;
}

// Even batches for the first of two devices, odd ones for the second.
const replica& replica_of(const std::vector<replica>& all, std::size_t batch) { return all[batch % all.size()]; }

std::vector<forward_operation> describe_all(const std::vector<replica>& on, std::size_t batches, product how) {
    std::vector<forward_operation> described;
    for (std::size_t b = 0; b < batches; ++b)
        described.push_back(describe_batch(b, replica_of(on, b).w0, replica_of(on, b).w1, how));
    return described;
}

running_batches launch_each(const std::vector<replica>& on, std::vector<forward_operation> described) {
    running_batches running;
    for (std::size_t b = 0; b < described.size(); ++b)
        running.push_back(spawn(std::move(described[b]), replica_of(on, b).pool));
    return running;
}

device_set devices_of(const runtime& machine, std::size_t count) {
    const device_set there = device_set::of(machine);
    std::vector<device*> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(&there[i % there.size()]);
    return device_set(std::move(all));
}

// A round is more than its kernels: uploads, clearing, downloads and the launches. On a GPU these take longer than the
// product up to some 1024 numbers a side, so a round gains little from a faster product.
void print_kernel_time(const trace& seen, std::size_t batches) {
    double kernels = 0, first = 0, last = 0;
    for (const trace_event& each : seen.events) {
        first = last == 0 ? each.start_us : std::min(first, each.start_us);
        last = std::max(last, each.end_us);
        if (each.kind == trace_kind::kernel || each.kind == trace_kind::library_call)
            kernels += each.end_us - each.start_us;
    }
    std::fprintf(
        stderr,
        "the kernels of a batch take %.1f us; the round of all batches takes %.1f us, with copies and launches, "
        "which another product leaves as they are\n",
        kernels / static_cast<double>(batches), last - first);
}

int run(const options& chosen) {
    constexpr std::size_t streams = 4;
    const product how = chosen.kernels.value_or(product::naive);
    const bool is_traced = chosen.kernels || !chosen.timeline.empty();
    trace_recorder recorder;
    runtime machine({.cpu_devices = chosen.devices, .trace = is_traced ? &recorder : nullptr});
    const device_set devices = devices_of(machine, chosen.devices);
    round_robin_devices pools(devices, streams);

    std::puts("=== Async MLP Pipeline ===\nAllocating model weights...");
    std::vector<replica> replicas;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        scheduling_policy& pool = pools.on(devices[i]);
        auto [w0, w1] = upload_weights(chosen.dim, pool);
        replicas.push_back({pool, std::move(w0), std::move(w1)});
    }
    print_weights(replicas);
    if (is_traced) {  // what happens only once is left out: kernels are loaded, memory is taken
        sync_wait(outputs_of(launch_each(replicas, describe_all(replicas, chosen.batches, how))));
        recorder.take();
    }
    auto described = describe_all(replicas, chosen.batches, how);
    std::printf("Described %zu batches, nothing has run (%s)\n", described.size(), use_counts(replicas).c_str());

    auto running = launch_each(replicas, std::move(described));
    std::printf("Launched %zu batches concurrently, awaiting results...\n", running.size());
    const std::vector<std::vector<float>> outputs = sync_wait(outputs_of(std::move(running)));
    bool all_ok = true;
    for (std::size_t b = 0; b < outputs.size(); ++b) all_ok = print(b, outputs[b]) && all_ok;
    std::printf("All batches are over (%s)\n", use_counts(replicas).c_str());
    if (is_traced) {
        const trace seen = recorder.take();
        if (chosen.kernels) print_kernel_time(seen, chosen.batches);
        if (!chosen.timeline.empty()) save_timeline(seen, chosen.timeline, {.title = "async_mlp"});
    }
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
