// SPDX-License-Identifier: Apache-2.0
#include "network_by_hand.hpp"

#include "support/by_hand.hpp"
#include "support/device_timing.hpp"
#include "support/matmul_by_hand.hpp"

namespace sluice::bench {
namespace {

// For larger copies a copy engine is faster than a kernel (measured for the library's small copies).
constexpr std::size_t most_bytes_by_kernel = std::size_t{512} << 10;

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t on) {
    if (bytes <= most_bytes_by_kernel) return copy_by_kernel(to, from, bytes, on);
    check(cudaMemcpyAsync(to, from, bytes, kind, on));
}

device_array<bfloat16> to_device(const std::vector<bfloat16>& values) {
    auto made = make_device<bfloat16>(values.size() + 8);
    check(cudaMemcpy(made.get(), values.data(), values.size() * sizeof(bfloat16), cudaMemcpyHostToDevice));
    return made;
}

void order(cudaStream_t later, cudaStream_t earlier) {
    const auto event = make_event();
    check(cudaEventRecord(event.get(), earlier));
    check(cudaStreamWaitEvent(later, event.get()));
}

}  // namespace

struct network_by_hand::state {
    std::vector<device_array<bfloat16>> weights, biases, memory;
    std::vector<std::unique_ptr<matmul_by_hand>> products;
    pinned_array<bfloat16> output;
    std::size_t output_size = 0;
    stream_by_hand stream = make_stream(), in = make_stream(), out = make_stream();
    graph_by_hand graph;
};

network_by_hand::~network_by_hand() = default;

network_by_hand::network_by_hand(const std::vector<layer_by_hand>& layers, const std::vector<std::size_t>& pieces,
                                 const bfloat16* input)
    : state_(std::make_unique<state>()) {
    state& s = *state_;
    std::size_t rows = 0;
    for (const std::size_t each : pieces) rows += each;
    s.output_size = rows * layers.back().out;
    s.output = make_pinned<bfloat16>(s.output_size + 8);
    for (const layer_by_hand& each : layers) {
        s.weights.push_back(to_device(each.weight));
        s.biases.push_back(to_device(each.bias));
    }
    std::vector<std::vector<bfloat16*>> activations;  // by piece: the input, then each layer's output
    for (const std::size_t each : pieces) {
        activations.emplace_back();
        const auto add = [&](std::size_t width) {
            s.memory.push_back(make_device<bfloat16>(each * width + 8));
            check(cudaMemset(s.memory.back().get(), 0, (each * width + 8) * sizeof(bfloat16)));
            activations.back().push_back(s.memory.back().get());
        };
        add(layers.front().in);
        for (std::size_t l = 0; l < layers.size(); ++l) {
            add(layers[l].out);
            s.products.push_back(std::make_unique<matmul_by_hand>(CUDA_R_16BF, each, layers[l].out, layers[l].in,
                                                                  s.biases[l].get(), layers[l].relu));
            s.products.back()->choose(activations.back()[l], s.weights[l].get(), activations.back()[l + 1],
                                      s.stream.get());
        }
    }
    check(cudaDeviceSynchronize());
    const bool is_cut = pieces.size() > 1;
    const cudaStream_t on = s.stream.get();
    const cudaStream_t in = is_cut ? s.in.get() : on, out = is_cut ? s.out.get() : on;
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(on, cudaStreamCaptureModeRelaxed));
    if (is_cut) order(in, on);
    std::size_t row = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
        const std::size_t in_size = pieces[p] * layers.front().in, out_size = pieces[p] * layers.back().out;
        copy(activations[p].front(), input + row * layers.front().in, in_size * sizeof(bfloat16),
             cudaMemcpyHostToDevice, in);
        if (is_cut) order(on, in);
        for (std::size_t l = 0; l < layers.size(); ++l)
            s.products[p * layers.size() + l]->run(activations[p][l], s.weights[l].get(), activations[p][l + 1], on);
        if (is_cut) order(out, on);
        copy(s.output.get() + row * layers.back().out, activations[p].back(), out_size * sizeof(bfloat16),
             cudaMemcpyDeviceToHost, out);
        row += pieces[p];
    }
    if (is_cut) order(on, out);
    check(cudaStreamEndCapture(on, &graph));
    cudaGraphExec_t made = nullptr;
    check(cudaGraphInstantiate(&made, graph, 0));
    check(cudaGraphDestroy(graph));
    s.graph.reset(made);
}

void network_by_hand::run() {
    check(cudaGraphLaunch(state_->graph.get(), state_->stream.get()));
    check(cudaStreamSynchronize(state_->stream.get()));
}

std::span<const bfloat16> network_by_hand::output() const { return {state_->output.get(), state_->output_size}; }

}  // namespace sluice::bench
