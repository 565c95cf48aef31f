// SPDX-License-Identifier: Apache-2.0
// Four pipelines, each 16 KiB to the device, three small kernels, 256 bytes back: ours, with pinned host buffers for
// input and output, everything reused by the pools; and by hand, with everything allocated beforehand.
//
// "latency": one round of four on four streams, waited for. "steady": two rounds are always in flight, on four streams
// (by hand, one event per pipeline marks the end of its round), and on eight streams, which the rounds use alternately.
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "sluice/sluice.hpp"
#include "support/by_hand.hpp"
#include "support/kernels_by_hand.cuh"
#include "support/result.hpp"
#include "support/timing.hpp"

using namespace sluice;
using bench::check;

namespace {

constexpr std::size_t pipelines = 4;
constexpr std::size_t in_size = 4096;
constexpr std::size_t out_size = 64;
constexpr std::size_t in_bytes = in_size * sizeof(float);
constexpr std::size_t out_bytes = out_size * sizeof(float);
using results = std::array<std::array<float, out_size>, pipelines>;

__global__ void scale_by_hand(float* x, float factor) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in_size) x[i] *= factor;
}
__global__ void square_by_hand(float* x) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in_size) x[i] *= x[i];
}
__global__ void fold_by_hand(const float* x, float* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out_size) return;
    float sum = 0;
    for (std::size_t k = 0; k < in_size / out_size; ++k) sum += x[k * out_size + i];
    y[i] = sum;
}

struct halve {
    SLUICE_KERNEL void operator()(index_1d at, float factor, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element *= factor;
    }
};
struct square {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element *= *element;
    }
};
struct fold {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* const element = y.at(at)) {
            float sum = 0;
            for (std::size_t k = 0; k < in_size / out_size; ++k) sum += x[k * out_size + at.value()];
            *element = sum;
        }
    }
};

auto pipeline(host_buffer<float> in, host_buffer<float> out) {
    return zip(upload(std::move(in), {in_size}), uninitialized<float>({out_size}))
        .and_then(
            [](auto x, auto y) { return zip(launch(halve{}, each_of(x), 0.5f, std::move(x)), value(std::move(y))); })
        .and_then([](auto x, auto y) { return zip(launch(square{}, each_of(x), std::move(x)), value(std::move(y))); })
        .and_then([](auto x, auto y) { return launch(fold{}, each_of(y), std::move(x), std::move(y)); })
        .and_then(download_to(std::move(out)));
}

// The same as one graph: it uploads from pinned blocks that each launch fills.
auto graph_pipeline(tensor<float> x) {
    return zip(launch(halve{}, each_of(x), 0.5f, std::move(x)).and_then([](auto y) {
               return launch(square{}, each_of(y), std::move(y));
           }),
               uninitialized<float>({out_size}))
        .and_then([](auto y, auto z) { return launch(fold{}, each_of(z), std::move(y), std::move(z)); })
        .and_then(download);
}

using inputs = std::array<std::vector<float>, pipelines>;

class ours {
public:
    ours(device& gpu, std::size_t streams, const inputs& from, bool replays)
        : pool_(gpu, streams, {.replays = replays}), home_(gpu), from_(from), landings_() {
        for (auto& round : landings_) {
            for (auto& each : round) each = host_buffer<float>(*home_, out_size);
        }
    }

    void submit(std::size_t round) {
        for (std::size_t p = 0; p < pipelines; ++p) {
            host_buffer<float> in(*home_, in_size);
            std::memcpy(in.write().data(), from_[p].data(), in_bytes);
            running_[round][p].emplace(spawn(pipeline(std::move(in), std::move(landings_[round][p])), pool_));
        }
    }
    void finish(std::size_t round) {
        for (std::size_t p = 0; p < pipelines; ++p) {
            landings_[round][p] = std::move(*running_[round][p]).get();
            std::memcpy(outputs[p].data(), landings_[round][p].read().data(), out_bytes);
        }
    }

    results outputs{};

private:
    round_robin pool_;
    stream_lease home_;  // for the host buffers; no command is submitted to it
    const inputs& from_;
    std::array<std::array<host_buffer<float>, pipelines>, 2> landings_;
    std::array<std::array<std::optional<device_future<pending<host_buffer<float>>>>, pipelines>, 2> running_;
};

struct four_pipelines {
    auto operator()(tensor<float> a, tensor<float> b, tensor<float> c, tensor<float> d) const {
        return zip(graph_pipeline(std::move(a)), graph_pipeline(std::move(b)), graph_pipeline(std::move(c)),
                   graph_pipeline(std::move(d)));
    }
};

class our_graph {
public:
    our_graph(device& gpu, const inputs& from)
        : pool_(gpu, 2),
          from_(from),
          fast_(compile(gpu, graph_options{.replicas = 2}, four_pipelines(), input(), input(), input(), input())) {}

    void submit(std::size_t round) {
        running_[round].emplace(spawn(fast_(values(0), values(1), values(2), values(3)), pool_));
    }
    void finish(std::size_t round) {
        const auto all = std::move(*running_[round]).get();
        std::size_t p = 0;
        std::apply([&](const auto&... each) { (std::ranges::copy(each, outputs[p++].begin()), ...); }, all);
    }

    results outputs{};

private:
    static host_input<float> input() { return host_input<float>({in_size}); }
    std::span<const float> values(std::size_t p) const { return from_[p]; }
    using landed = pending<std::vector<float>>;

    round_robin pool_;
    const inputs& from_;
    executable_graph<four_pipelines, host_input<float>, host_input<float>, host_input<float>, host_input<float>> fast_;
    std::array<std::optional<device_future<std::tuple<landed, landed, landed, landed>>>, 2> running_;
};

class by_hand {
public:
    by_hand(std::size_t streams, const inputs& from) : from_(from) {
        for (std::size_t i = 0; i < streams; ++i) streams_.push_back(bench::make_stream());
        for (auto& round : lanes_) {
            for (lane& each : round) {
                each.staging = bench::make_pinned<float>(in_size);
                each.landing = bench::make_pinned<float>(out_size);
                each.x = bench::make_device<float>(in_size);
                each.y = bench::make_device<float>(out_size);
                each.over = bench::make_event();
            }
        }
    }

    void submit(std::size_t round) {
        for (std::size_t p = 0; p < pipelines; ++p) {
            lane& at = lanes_[round][p];
            const cudaStream_t on = stream_of(round, p);
            std::memcpy(at.staging.get(), from_[p].data(), in_bytes);
            check(cudaMemcpyAsync(at.x.get(), at.staging.get(), in_bytes, cudaMemcpyHostToDevice, on));
            scale_by_hand<<<in_size / 256, 256, 0, on>>>(at.x.get(), 0.5f);
            square_by_hand<<<in_size / 256, 256, 0, on>>>(at.x.get());
            fold_by_hand<<<1, out_size, 0, on>>>(at.x.get(), at.y.get());
            check(cudaMemcpyAsync(at.landing.get(), at.y.get(), out_bytes, cudaMemcpyDeviceToHost, on));
            if (shares_streams_ && streams_.size() == pipelines) check(cudaEventRecord(at.over.get(), on));
        }
        check(cudaGetLastError());
    }
    void finish(std::size_t round) {
        for (std::size_t p = 0; p < pipelines; ++p) {
            if (shares_streams_ && streams_.size() == pipelines) {
                check(cudaEventSynchronize(lanes_[round][p].over.get()));
            } else {
                check(cudaStreamSynchronize(stream_of(round, p)));
            }
            std::memcpy(outputs[p].data(), lanes_[round][p].landing.get(), out_bytes);
        }
    }
    // Whether two rounds may be in flight on one stream.
    void share_streams(bool whether) { shares_streams_ = whether; }

    results outputs{};

private:
    struct lane {
        bench::pinned_array<float> staging, landing;
        bench::device_array<float> x, y;
        bench::event_by_hand over;
    };

    cudaStream_t stream_of(std::size_t round, std::size_t pipeline) const {
        return streams_[(round * pipelines + pipeline) % streams_.size()].get();
    }

    const inputs& from_;
    std::vector<bench::stream_by_hand> streams_;
    std::array<std::array<lane, pipelines>, 2> lanes_;
    bool shares_streams_ = false;
};

// How a hand-written graph copies: with CUDA's copy nodes, or with kernels.
enum class copies_by { nodes, kernels };

// All four as one graph, captured from four streams; two graphs for two rounds.
class graph_by_hand {
public:
    graph_by_hand(const inputs& from, copies_by how) : from_(from) {
        for (round& each : rounds_) capture(each, how);
    }
    ~graph_by_hand() {
        for (const round& each : rounds_) static_cast<void>(cudaGraphExecDestroy(each.exec));
    }
    graph_by_hand(const graph_by_hand&) = delete;  // it owns graphs
    graph_by_hand& operator=(const graph_by_hand&) = delete;

    void submit(std::size_t number) {
        round& at = rounds_[number];
        for (std::size_t p = 0; p < pipelines; ++p) std::memcpy(at.lanes[p].staging.get(), from_[p].data(), in_bytes);
        check(cudaGraphLaunch(at.exec, at.stream.get()));
    }
    void finish(std::size_t number) {
        round& at = rounds_[number];
        check(cudaStreamSynchronize(at.stream.get()));
        for (std::size_t p = 0; p < pipelines; ++p)
            std::memcpy(outputs[p].data(), at.lanes[p].landing.get(), out_bytes);
    }

    results outputs{};

private:
    struct lane {
        bench::pinned_array<float> staging = bench::make_pinned<float>(in_size);
        bench::pinned_array<float> landing = bench::make_pinned<float>(out_size);
        bench::device_array<float> x = bench::make_device<float>(in_size);
        bench::device_array<float> y = bench::make_device<float>(out_size);
    };
    struct round {
        std::array<lane, pipelines> lanes;
        bench::stream_by_hand stream = bench::make_stream();
        cudaGraphExec_t exec = nullptr;
    };

    static void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, copies_by how,
                     cudaStream_t on) {
        if (how == copies_by::kernels) return bench::enqueue_copy_by_hand(to, from, bytes, on);
        check(cudaMemcpyAsync(to, from, bytes, kind, on));
    }
    static void capture(round& at, copies_by how) {
        std::vector<bench::stream_by_hand> arms;
        const auto begun = bench::make_event();
        check(cudaStreamBeginCapture(at.stream.get(), cudaStreamCaptureModeRelaxed));
        check(cudaEventRecord(begun.get(), at.stream.get()));
        for (lane& each : at.lanes) {
            arms.push_back(bench::make_stream());
            const cudaStream_t on = arms.back().get();
            check(cudaStreamWaitEvent(on, begun.get()));
            copy(each.x.get(), each.staging.get(), in_bytes, cudaMemcpyHostToDevice, how, on);
            scale_by_hand<<<in_size / 256, 256, 0, on>>>(each.x.get(), 0.5f);
            square_by_hand<<<in_size / 256, 256, 0, on>>>(each.x.get());
            fold_by_hand<<<1, out_size, 0, on>>>(each.x.get(), each.y.get());
            copy(each.landing.get(), each.y.get(), out_bytes, cudaMemcpyDeviceToHost, how, on);
            const auto over = bench::make_event();
            check(cudaEventRecord(over.get(), on));
            check(cudaStreamWaitEvent(at.stream.get(), over.get()));
        }
        cudaGraph_t graph = nullptr;
        check(cudaStreamEndCapture(at.stream.get(), &graph));
        check(cudaGraphInstantiate(&at.exec, graph, 0));
        check(cudaGraphDestroy(graph));
    }

    const inputs& from_;
    std::array<round, 2> rounds_;
};

// One round, waited for.
template <typename Version>
void one_round(Version& version) {
    version.submit(0);
    version.finish(0);
}

// A hundred rounds, two of them in flight.
constexpr std::size_t steady_rounds = 100;
template <typename Version>
void many_rounds(Version& version) {
    version.submit(0);
    for (std::size_t i = 1; i < steady_rounds; ++i) {
        version.submit(i % 2);
        version.finish((i + 1) % 2);
    }
    version.finish((steady_rounds - 1) % 2);
}

void compare(const results& mine, const results& theirs) {
    for (std::size_t p = 0; p < pipelines; ++p) {
        for (std::size_t i = 0; i < out_size; ++i) {
            if (std::abs(mine[p][i] - theirs[p][i]) > 1e-4f * std::abs(theirs[p][i]))
                throw std::runtime_error("the versions do not agree");
        }
    }
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    const std::string name = gpu.properties().name;
    inputs from;
    for (std::size_t p = 0; p < pipelines; ++p) {
        for (std::size_t i = 0; i < in_size; ++i) from[p].push_back(static_cast<float>((i + 37 * p) % 13) * 0.1f);
    }
    const std::string with_replays = ", \"replays\": true}";
    for (const std::size_t streams : {pipelines, 2 * pipelines}) {
        ours mine(gpu, streams, from, false);
        ours replayed(gpu, streams, from, true);
        by_hand theirs(streams, from);
        const std::string axes = "{\"pipelines\": 4, \"streams\": " + std::to_string(streams) + ", \"mode\": ";
        if (streams == pipelines) {
            const auto latency = bench::medians(
                {[&] { one_round(mine); }, [&] { one_round(theirs); }, [&] { one_round(replayed); }}, 5000, 200);
            compare(mine.outputs, theirs.outputs);
            compare(replayed.outputs, theirs.outputs);
            bench::print({"four_pipelines", axes + "\"latency\"}", latency[0], "us", latency[1], name});
            bench::print({"four_pipelines", axes + "\"latency\"" + with_replays, latency[2], "us", latency[1], name});
        }
        theirs.share_streams(streams == pipelines);
        const auto steady = bench::medians(
            {[&] { many_rounds(mine); }, [&] { many_rounds(theirs); }, [&] { many_rounds(replayed); }}, 100, 5);
        compare(mine.outputs, theirs.outputs);
        compare(replayed.outputs, theirs.outputs);
        bench::print(
            {"four_pipelines", axes + "\"steady\"}", steady[0] / steady_rounds, "us", steady[1] / steady_rounds, name});
        bench::print({"four_pipelines", axes + "\"steady\"" + with_replays, steady[2] / steady_rounds, "us",
                      steady[1] / steady_rounds, name});
    }
    our_graph mine(gpu, from);
    graph_by_hand theirs(from, copies_by::nodes);
    graph_by_hand by_kernels(from, copies_by::kernels);
    const auto latency = bench::medians(
        {[&] { one_round(mine); }, [&] { one_round(theirs); }, [&] { one_round(by_kernels); }}, 5000, 200);
    compare(mine.outputs, theirs.outputs);
    compare(mine.outputs, by_kernels.outputs);
    bench::print(
        {"four_pipelines_graph", "{\"pipelines\": 4, \"mode\": \"latency\"}", latency[0], "us", latency[1], name});
    const auto steady = bench::medians(
        {[&] { many_rounds(mine); }, [&] { many_rounds(theirs); }, [&] { many_rounds(by_kernels); }}, 100, 5);
    compare(mine.outputs, theirs.outputs);
    bench::print({"four_pipelines_graph", "{\"pipelines\": 4, \"mode\": \"steady\"}", steady[0] / steady_rounds, "us",
                  steady[1] / steady_rounds, name});
    const std::string best = ", \"baseline\": \"copying kernels\"}";
    bench::print({"four_pipelines_graph", "{\"pipelines\": 4, \"mode\": \"latency\"" + best, latency[0], "us",
                  latency[2], name});
    bench::print({"four_pipelines_graph", "{\"pipelines\": 4, \"mode\": \"steady\"" + best, steady[0] / steady_rounds,
                  "us", steady[2] / steady_rounds, name});
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
