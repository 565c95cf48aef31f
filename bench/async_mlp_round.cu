// SPDX-License-Identifier: Apache-2.0
// The four batches of examples/async_mlp on four streams: allocate, upload from std::vector, zero, three kernels,
// download. Ours, and by hand in three ways: cudaMallocAsync from the default pool, the same from a pool that keeps its
// memory, and everything allocated beforehand.
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "sluice/kernels/naive.hpp"
#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/kernels_by_hand.cuh"
#include "support/result.hpp"
#include "support/timing.hpp"

using namespace sluice;
using bench::check;

namespace {

constexpr std::size_t dim = 64;
constexpr std::size_t batches = 4;
constexpr std::size_t matrix_bytes = dim * dim * sizeof(float);
constexpr std::size_t vector_bytes = dim * sizeof(float);

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
    by_hand(memory_from location, const float* w0, const float* w1) : where_(location), w0_(w0), w1_(w1) {
        for (lane& each : lanes_) {
            check(cudaStreamCreateWithFlags(&each.stream, cudaStreamNonBlocking));
            check(cudaMallocHost(&each.staging, matrix_bytes));
            check(cudaMallocHost(&each.landing, vector_bytes));
            if (location == memory_from::beforehand) {
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

// How a hand-written graph copies and clears: with CUDA's copy and memset nodes, or with kernels.
enum class transfers_by { nodes, kernels };

// The four batches as one captured graph, which uploads the inputs or finds them on the device.
class graph_by_hand {
public:
    graph_by_hand(const std::array<std::vector<float>, batches>& inputs, bool uploads, transfers_by how,
                  const float* w0, const float* w1)
        : uploads_(uploads), stream_(bench::make_stream()) {
        const auto begun = bench::make_event();
        std::vector<bench::stream_by_hand> arms;
        for (std::size_t b = 0; b < batches; ++b) {
            std::memcpy(lanes_[b].staging.get(), inputs[b].data(), matrix_bytes);
            check(cudaMemcpy(lanes_[b].input.get(), inputs[b].data(), matrix_bytes, cudaMemcpyHostToDevice));
        }
        check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed));
        check(cudaEventRecord(begun.get(), stream_.get()));
        for (lane& each : lanes_) {
            arms.push_back(bench::make_stream());
            const cudaStream_t on = arms.back().get();
            check(cudaStreamWaitEvent(on, begun.get()));
            if (how == transfers_by::kernels) {
                bench::enqueue_clear_by_hand(each.hidden, matrix_bytes + vector_bytes, on);  // both at once
                if (uploads) bench::enqueue_copy_by_hand(each.input.get(), each.staging.get(), matrix_bytes, on);
            } else {
                if (uploads)
                    check(cudaMemcpyAsync(each.input.get(), each.staging.get(), matrix_bytes, cudaMemcpyHostToDevice,
                                          on));
                check(cudaMemsetAsync(each.hidden, 0, matrix_bytes, on));
                check(cudaMemsetAsync(each.output, 0, vector_bytes, on));
            }
            sgemm_by_hand<<<dim3(dim / 32, dim / 8), dim3(32, 8), 0, on>>>(each.input.get(), w0, each.hidden);
            matvec_by_hand<<<1, dim, 0, on>>>(each.hidden, w1, each.output);
            relu_by_hand<<<1, dim, 0, on>>>(each.output);
            if (how == transfers_by::kernels) {
                bench::enqueue_copy_by_hand(each.landing.get(), each.output, vector_bytes, on);
            } else {
                check(cudaMemcpyAsync(each.landing.get(), each.output, vector_bytes, cudaMemcpyDeviceToHost, on));
            }
            const auto over = bench::make_event();
            check(cudaEventRecord(over.get(), on));
            check(cudaStreamWaitEvent(stream_.get(), over.get()));
        }
        cudaGraph_t graph = nullptr;
        check(cudaStreamEndCapture(stream_.get(), &graph));
        check(cudaGraphInstantiate(&exec_, graph, 0));
        check(cudaGraphDestroy(graph));
    }
    ~graph_by_hand() { static_cast<void>(cudaGraphExecDestroy(exec_)); }
    graph_by_hand(const graph_by_hand&) = delete;  // it owns a graph
    graph_by_hand& operator=(const graph_by_hand&) = delete;

    void submit(const std::array<std::vector<float>, batches>& inputs) {
        for (std::size_t b = 0; uploads_ && b < batches; ++b)
            std::memcpy(lanes_[b].staging.get(), inputs[b].data(), matrix_bytes);
        check(cudaGraphLaunch(exec_, stream_.get()));
    }
    std::array<std::vector<float>, batches> finish() {
        check(cudaStreamSynchronize(stream_.get()));
        std::array<std::vector<float>, batches> outputs;
        for (std::size_t b = 0; b < batches; ++b)
            outputs[b].assign(lanes_[b].landing.get(), lanes_[b].landing.get() + dim);
        return outputs;
    }

private:
    struct lane {
        bench::pinned_array<float> staging = bench::make_pinned<float>(dim * dim);
        bench::pinned_array<float> landing = bench::make_pinned<float>(dim);
        bench::device_array<float> input = bench::make_device<float>(dim * dim);
        bench::device_array<float> cleared = bench::make_device<float>(dim * dim + dim);
        float* hidden = cleared.get();
        float* output = hidden + dim * dim;
    };
    const bool uploads_;
    std::array<lane, batches> lanes_;
    bench::stream_by_hand stream_;
    cudaGraphExec_t exec_ = nullptr;
};

// The hand-written kernels for the graphs: here, too, the sizes are known at compile time.
struct sgemm {
    SLUICE_KERNEL void operator()(index_2d at, view<const float> a, view<const float> b,
                                  disjoint_matrix<float> c) const {
        float* const element = c.at(at);
        if (element == nullptr) return;
        float sum = 0;
        for (std::size_t k = 0; k < dim; ++k) sum += a[at.row() * dim + k] * b[k * dim + at.column()];
        *element += sum;
    }
};
struct matvec_by_rows {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> a, view<const float> x, disjoint_view<float> y) const {
        float* const element = y.at(at);
        if (element == nullptr) return;
        float sum = 0;
        for (std::size_t k = 0; k < dim; ++k) sum += a[at.value() * dim + k] * x[k];
        *element = sum;
    }
};

// From a tensor on the device, owned or shared.
template <typename Input>
auto forward_from(Input given, shared_tensor<float> w0, shared_tensor<float> w1) {
    return zip(zeros<float>({dim, dim}), zeros<float>({dim}))
        .and_then([=, input = shared_tensor<float>(std::move(given))](auto hidden, auto output) {
            return zip(launch(sgemm{}, each_of(hidden), input, w0, std::move(hidden)), value(std::move(output)));
        })
        .and_then([=](auto hidden, auto output) {
            return launch(matvec_by_rows{}, each_of(output), std::move(hidden), w1, std::move(output));
        })
        .and_then([](auto output) { return launch(kernels::relu{}, each_of(output), std::move(output)); })
        .and_then(download);
}

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

    // The same as one graph.
    using all_outputs = std::array<std::vector<float>, batches>;
    const auto to_array = [](auto all) {
        return std::apply([](auto&... each) { return all_outputs{std::move(each)...}; }, all);
    };
    const host_input<float> up({dim, dim});
    const auto uploading = compile(
        gpu,
        [=](tensor<float> a, tensor<float> b, tensor<float> c, tensor<float> d) {
            return zip(forward_from(std::move(a), w0, w1), forward_from(std::move(b), w0, w1),
                       forward_from(std::move(c), w0, w1), forward_from(std::move(d), w0, w1));
        },
        up, up, up, up);
    std::vector<shared_tensor<float>> there;
    for (const auto& input : inputs) there.push_back(shared_tensor<float>(sync(upload(input, {dim, dim}), pool)));
    const auto make_in_place = [&](std::size_t replicas) {
        return compile(gpu, graph_options{.replicas = replicas}, [=] {
            return zip(forward_from(there[0], w0, w1), forward_from(there[1], w0, w1), forward_from(there[2], w0, w1),
                       forward_from(there[3], w0, w1));
        });
    };
    const auto in_place = make_in_place(1);
    const auto span_of = [&](std::size_t b) { return std::span<const float>(inputs[b]); };
    const float *const first_weights = w0->device_data(), *const second_weights = w1->device_data();
    graph_by_hand hand_uploading(inputs, true, transfers_by::nodes, first_weights, second_weights);
    graph_by_hand hand_in_place(inputs, false, transfers_by::nodes, first_weights, second_weights);
    graph_by_hand kernels_uploading(inputs, true, transfers_by::kernels, first_weights, second_weights);
    graph_by_hand kernels_in_place(inputs, false, transfers_by::kernels, first_weights, second_weights);
    const auto round_of = [&](graph_by_hand& graph) {
        graph.submit(inputs);
        outputs = graph.finish();
    };
    all_outputs from_graph;
    const auto graph_times = bench::medians(
        {[&] { from_graph = to_array(sync(uploading(span_of(0), span_of(1), span_of(2), span_of(3)), pool)); },
         [&] { round_of(hand_uploading); }, [&] { from_graph = to_array(sync(in_place(), pool)); },
         [&] { round_of(hand_in_place); }, [&] { round_of(kernels_uploading); }, [&] { round_of(kernels_in_place); }},
        3000);
    round_of(kernels_uploading);
    for (std::size_t b = 0; b < batches; ++b) {
        for (std::size_t i = 0; i < dim; ++i) {
            if (std::abs(from_graph[b][i] - theirs[b][i]) > 1e-6f || std::abs(outputs[b][i] - theirs[b][i]) > 1e-6f)
                throw std::runtime_error("the graphs do not agree");
        }
    }
    bench::print({"async_mlp_graph", "{\"batches\": 4, \"inputs\": \"from vectors\"}", graph_times[0], "us",
                  graph_times[1], name});
    bench::print(
        {"async_mlp_graph", "{\"batches\": 4, \"inputs\": \"in place\"}", graph_times[2], "us", graph_times[3], name});
    const std::string best = ", \"baseline\": \"copying and clearing kernels\"}";
    bench::print({"async_mlp_graph", "{\"batches\": 4, \"inputs\": \"from vectors\"" + best, graph_times[0], "us",
                  graph_times[4], name});
    bench::print({"async_mlp_graph", "{\"batches\": 4, \"inputs\": \"in place\"" + best, graph_times[2], "us",
                  graph_times[5], name});

    // Back to back, with this many rounds in flight.
    constexpr std::size_t in_flight = 8;
    constexpr std::size_t rounds = 400;
    const auto wide = make_in_place(4);
    using round_future = decltype(spawn(wide(), pool));
    const auto back_to_back = [&] {
        std::vector<round_future> open;
        open.reserve(rounds);
        for (std::size_t i = 0; i < rounds; ++i) {
            open.push_back(spawn(wide(), pool));
            if (i >= in_flight) static_cast<void>(std::move(open[i - in_flight]).get());
        }
        for (std::size_t i = rounds - in_flight; i < rounds; ++i) static_cast<void>(std::move(open[i]).get());
    };
    const std::vector<std::function<void()>> only{back_to_back};
    const double took = bench::medians(only, 20, 3)[0];
    bench::print({"async_mlp_graph_throughput", "{\"batches\": 4, \"replicas\": 4}", batches * rounds / took * 1e6,
                  "batches/s", std::nullopt, name});
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
