// The four batches of examples/async_mlp on four streams: allocate, upload from std::vector, zero, three
// kernels, download. Ours, and by hand in three ways: cudaMallocAsync from the default pool, the same from a
// pool that keeps its memory, and everything allocated beforehand.
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "sluice/kernels/naive.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

using namespace sluice;

namespace {

constexpr std::size_t dim = 64;
constexpr std::size_t batches = 4;
constexpr std::size_t matrix_bytes = dim * dim * sizeof(float);
constexpr std::size_t vector_bytes = dim * sizeof(float);

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

__global__ void sgemm_by_hand(const float* a, const float* b, float* c) {
    const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (std::size_t k = 0; k < dim; ++k) sum += a[row * dim + k] * b[k * dim + column];
    c[row * dim + column] += sum;
}

__global__ void matvec_by_hand(const float* a, const float* x, float* y) {
    const unsigned row = threadIdx.x;
    float sum = 0;
    for (std::size_t k = 0; k < dim; ++k) sum += a[row * dim + k] * x[k];
    y[row] = sum;
}

__global__ void relu_by_hand(float* x) { x[threadIdx.x] = x[threadIdx.x] < 0 ? 0 : x[threadIdx.x]; }

enum class memory_from { default_pool, keeping_pool, beforehand };

class by_hand {
public:
    by_hand(memory_from where, const float* w0, const float* w1) : where_(where), w0_(w0), w1_(w1) {
        for (lane& each : lanes_) {
            check(cudaStreamCreateWithFlags(&each.stream, cudaStreamNonBlocking));
            check(cudaMallocHost(&each.staging, matrix_bytes));
            check(cudaMallocHost(&each.landing, vector_bytes));
            if (where == memory_from::beforehand) {
                check(cudaMalloc(&each.input, matrix_bytes));
                check(cudaMalloc(&each.hidden, matrix_bytes));
                check(cudaMalloc(&each.output, vector_bytes));
            }
        }
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, 0};
        check(cudaMemPoolCreate(&pool_, &properties));
        std::uint64_t all = ~std::uint64_t{0};
        check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all));
    }

    std::array<std::vector<float>, batches> round(const std::array<std::vector<float>, batches>& inputs) {
        for (std::size_t b = 0; b < batches; ++b) submit(lanes_[b], inputs[b]);
        std::array<std::vector<float>, batches> outputs;
        for (std::size_t b = 0; b < batches; ++b) {
            check(cudaStreamSynchronize(lanes_[b].stream));
            outputs[b].assign(lanes_[b].landing, lanes_[b].landing + dim);
        }
        return outputs;
    }

private:
    struct lane {
        cudaStream_t stream = nullptr;
        float *staging = nullptr, *landing = nullptr, *input = nullptr, *hidden = nullptr, *output = nullptr;
    };

    void allocate(float*& data, std::size_t bytes, cudaStream_t stream) {
        if (where_ == memory_from::default_pool) check(cudaMallocAsync(&data, bytes, stream));
        if (where_ == memory_from::keeping_pool) check(cudaMallocFromPoolAsync(&data, bytes, pool_, stream));
    }
    void release(float* data, cudaStream_t stream) {
        if (where_ != memory_from::beforehand) check(cudaFreeAsync(data, stream));
    }

    void submit(lane& on, const std::vector<float>& input) {
        allocate(on.input, matrix_bytes, on.stream);
        if (where_ == memory_from::beforehand) {
            std::memcpy(on.staging, input.data(), matrix_bytes);
            check(cudaMemcpyAsync(on.input, on.staging, matrix_bytes, cudaMemcpyHostToDevice, on.stream));
        } else {
            check(cudaMemcpyAsync(on.input, input.data(), matrix_bytes, cudaMemcpyHostToDevice, on.stream));
        }
        allocate(on.hidden, matrix_bytes, on.stream);
        check(cudaMemsetAsync(on.hidden, 0, matrix_bytes, on.stream));
        allocate(on.output, vector_bytes, on.stream);
        check(cudaMemsetAsync(on.output, 0, vector_bytes, on.stream));
        sgemm_by_hand<<<dim3(dim / 32, dim / 8), dim3(32, 8), 0, on.stream>>>(on.input, w0_, on.hidden);
        release(on.input, on.stream);
        matvec_by_hand<<<1, dim, 0, on.stream>>>(on.hidden, w1_, on.output);
        release(on.hidden, on.stream);
        relu_by_hand<<<1, dim, 0, on.stream>>>(on.output);
        check(cudaMemcpyAsync(on.landing, on.output, vector_bytes, cudaMemcpyDeviceToHost, on.stream));
        release(on.output, on.stream);
        check(cudaGetLastError());
    }

    const memory_from where_;
    const float* const w0_;
    const float* const w1_;
    cudaMemPool_t pool_ = nullptr;
    std::array<lane, batches> lanes_;
};

auto forward(std::span<const float> batch, shared_tensor<float> w0, shared_tensor<float> w1) {
    return zip(upload(batch, nullptr, {dim, dim}), zeros<float>({dim, dim}), zeros<float>({dim}))
        .and_then([=](auto input, auto hidden, auto output) {
            return zip(
                launch(kernels::sgemm_naive{}, each_of(hidden), 1.f, std::move(input), w0, 0.f, std::move(hidden)),
                value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(kernels::matvec_naive{}, each_of(output), std::move(hidden), w1, std::move(output));
        })
        .and_then([](auto output) { return launch(kernels::relu{}, each_of(output), std::move(output)); })
        .and_then(download);
}

template <typename Function>
std::vector<float> make(std::size_t size, Function element) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = element(i);
    return values;
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    round_robin pool(gpu, batches);
    auto [first, second] =
        sync(zip(upload(make(dim * dim, [](std::size_t i) { return (float(i % 7) - 3) * 0.01f; }), {dim, dim}),
                 upload(make(dim, [](std::size_t i) { return (float(i % 5) - 2) * 0.01f; }))),
             pool);
    const shared_tensor<float> w0(std::move(first));
    const shared_tensor<float> w1(std::move(second));
    std::array<std::vector<float>, batches> inputs;
    for (std::size_t b = 0; b < batches; ++b) {
        inputs[b] = make(dim * dim, [b](std::size_t i) { return float((i + 37 * b) % 13) * 0.1f; });
    }

    by_hand fresh(memory_from::default_pool, w0->device_data(), w1->device_data());
    by_hand kept(memory_from::keeping_pool, w0->device_data(), w1->device_data());
    by_hand beforehand(memory_from::beforehand, w0->device_data(), w1->device_data());

    std::array<std::vector<float>, batches> outputs;
    std::vector<device_future<pending<std::vector<float>>>> running;
    running.reserve(batches);
    const auto ours = [&] {
        for (const auto& input : inputs) running.push_back(spawn(forward(input, w0, w1), pool));
        for (std::size_t b = 0; b < batches; ++b) outputs[b] = std::move(running[b]).get();
        running.clear();
    };
    const auto times =
        bench::medians({ours, [&] { outputs = fresh.round(inputs); }, [&] { outputs = kept.round(inputs); },
                        [&] { outputs = beforehand.round(inputs); }},
                       3000);
    ours();
    const auto mine = outputs;
    const auto theirs = beforehand.round(inputs);
    for (std::size_t b = 0; b < batches; ++b) {
        for (std::size_t i = 0; i < dim; ++i) {
            if (std::abs(mine[b][i] - theirs[b][i]) > 1e-6f) throw std::runtime_error("the versions do not agree");
        }
    }

    const std::string name = gpu.properties().name;
    const char* const baselines[] = {"cudaMallocAsync, default pool", "cudaMallocAsync, keeping pool",
                                     "allocated beforehand"};
    for (std::size_t i = 0; i < 3; ++i) {
        bench::print({"async_mlp_round",
                      "{\"batches\": 4, \"dim\": 64, \"baseline\": \"" + std::string(baselines[i]) + "\"}", times[0],
                      "us", times[i + 1], name});
    }
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
