// async_mlp: four batches through a small network at the same time, on a pool of four streams: spawned as futures,
// awaited by a coroutine. No thread waits for the device but main, for the whole.
//
// Kernels and host code stand in one file. Where there is a GPU it runs there, elsewhere on the CPU; what it
// prints is the same.

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"
#include "sluice/sluice.hpp"

using namespace sluice;

namespace {

constexpr std::size_t dim = 64;
constexpr std::size_t batches = 4;

// One thread makes one element of c: c = alpha * a * b + beta * c. (Built without fused multiply-add, so that
// a GPU and a CPU round alike and print the same.)
struct sgemm_naive {
    SLUICE_KERNEL void operator()(index_2d at, float alpha, matrix_view<const float> a, matrix_view<const float> b,
                                  float beta, disjoint_matrix<float> c) const {
        if (float* element = c.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.row(), k) * b(k, at.column());
            *element = alpha * sum + beta * *element;
        }
    }
};

struct matvec_naive {
    SLUICE_KERNEL void operator()(index_1d at, matrix_view<const float> a, view<const float> x,
                                  disjoint_view<float> y) const {
        if (float* element = y.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < a.columns(); ++k) sum += a(at.value(), k) * x[k];
            *element = sum;
        }
    }
};

struct relu {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element = *element < 0 ? 0 : *element;
    }
};

// The whole network, as one lazy operation. Nothing runs until somebody says where.
auto forward(std::vector<float> batch, shared_tensor<float> w0, shared_tensor<float> w1) {
    return zip(upload(std::move(batch), {dim, dim}), zeros<float>({dim, dim}), zeros<float>({dim}))
        .and_then([=](auto input, auto hidden, auto output) {
            return zip(launch(sgemm_naive{}, each_of(hidden), 1.f, std::move(input), w0, 0.f, std::move(hidden)),
                       value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(matvec_naive{}, each_of(output), std::move(hidden), w1, std::move(output));
        })
        .and_then([](auto output) { return launch(relu{}, each_of(output), std::move(output)); })
        .and_then(download);
}

template <typename Function>
std::vector<float> make(std::size_t size, Function element) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = element(i);
    return values;
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
    std::string first;
    for (std::size_t i = 0; i < 8; ++i) first += (i == 0 ? "" : ", ") + to_text(output[i]);
    std::printf("Batch %zu: %zu elements, first 8 = [%s] [%s]\n", batch, output.size(), first.c_str(),
                relu_ok ? "ReLU OK" : "ReLU FAILED");
    return relu_ok;
}

using batch_future = device_future<pending<std::vector<float>>>;

task<bool> print_all(std::vector<batch_future> running) {
    bool all_ok = true;
    for (std::size_t b = 0; b < running.size(); ++b) {
        const std::vector<float> output = co_await std::move(running[b]);
        all_ok = print(b, output) && all_ok;
    }
    co_return all_ok;
}

int run() {
    runtime machine;
    device& device = machine.default_device();
    round_robin pool(device, batches);

    // Weights go up once. Shared, they are read by every batch and freed behind the last reader.
    auto [first, second] =
        sync(zip(upload(make(dim * dim, [](std::size_t i) { return (float(i % 7) - 3) * 0.01f; }), {dim, dim}),
                 upload(make(dim, [](std::size_t i) { return (float(i % 5) - 2) * 0.01f; }), {dim})),
             pool);
    const shared_tensor<float> w0(std::move(first));
    const shared_tensor<float> w1(std::move(second));

    // Four batches, described. Nothing has run yet; each holds the weights by reference.
    std::vector<decltype(forward({}, w0, w1))> described;
    for (std::size_t b = 0; b < batches; ++b) {
        described.push_back(
            forward(make(dim * dim, [b](std::size_t i) { return float((i + 37 * b) % 13) * 0.1f; }), w0, w1));
    }
    std::printf("w0: shape %s, %ld references; w1: shape %s, %ld references\n", to_string(w0->shape()).c_str(),
                w0.use_count(), to_string(w1->shape()).c_str(), w1.use_count());

    // On their way, each on a stream of its own, before the first is awaited.
    std::vector<batch_future> running;
    for (auto& batch : described) running.push_back(spawn(std::move(batch), pool));
    const bool all_ok = sync_wait(print_all(std::move(running)));
    std::puts(all_ok ? "SUCCESS: All batches completed." : "FAILED: a batch is wrong.");
    return all_ok ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "async_mlp: %s\n", failure.what());
    return 1;
}
