// SPDX-License-Identifier: Apache-2.0
// Two streams on the two halves of one buffer, each copies in from pinned memory, computes and copies back: Sluice's
// parts of a tensor against the same by hand (cudaMemcpyAsync, <<<>>>, pointers into one allocation). And the same
// operation on one half, on a stream of Sluice and on a foreign stream.
#include <cuda_runtime_api.h>

#include <array>
#include <stdexcept>

#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

using namespace sluice;

namespace {

constexpr int rounds_inside = 500;

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

SLUICE_KERNEL float root_of(float square) {
    float root = square < 1 ? 1 : square;
    for (int i = 0; i < rounds_inside; ++i) root = 0.5f * (root + square / root);
    return root;
}

struct square_root {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const element = x.at(at)) *element = root_of(*element);
    }
};
__global__ void square_root_by_hand(float* x, std::size_t size) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] = root_of(x[i]);
}

void run(std::size_t size) {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    round_robin pool(gpu, 2);
    const std::size_t half = size / 2;

    float *in = nullptr, *out = nullptr, *by_hand = nullptr;
    check(cudaMallocHost(&in, size * sizeof(float)));
    check(cudaMallocHost(&out, size * sizeof(float)));
    check(cudaMalloc(&by_hand, size * sizeof(float)));
    std::array<cudaStream_t, 2> streams{};
    for (cudaStream_t& each : streams) check(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
    for (std::size_t i = 0; i < size; ++i) in[i] = static_cast<float>(i);

    const auto hand = [&](std::size_t h) {
        float* const x = by_hand + h * half;
        check(cudaMemcpyAsync(x, in + h * half, half * sizeof(float), cudaMemcpyHostToDevice, streams[h]));
        square_root_by_hand<<<static_cast<unsigned>((half + 255) / 256), 256, 0, streams[h]>>>(x, half);
        check(cudaMemcpyAsync(out + h * half, x, half * sizeof(float), cudaMemcpyDeviceToHost, streams[h]));
    };
    const auto owned = [](float* memory) { return std::shared_ptr<void>(memory, [](void*) {}); };
    const auto ours = [&](tensor<float> x, std::size_t h) {
        return upload_to(std::move(x), std::span<const float>(in + h * half, half), owned(in))
            .and_then([](auto y) {
                const auto all = each_of(y);
                return launch(square_root{}, all, std::move(y));
            })
            .and_then(
                [&, h](auto y) { return download_to(std::move(y), std::span(out + h * half, half), owned(out)); });
    };
    const auto name = gpu.properties().name;
    const auto both = bench::medians({[&] {
                                          hand(0);
                                          hand(1);
                                          for (cudaStream_t const each : streams) check(cudaStreamSynchronize(each));
                                      },
                                      [&] {
                                          auto [low, high] = split<2>(tensor<float>(pool.next(), {size}));
                                          auto first = spawn(ours(std::move(low), 0), pool);
                                          auto second = spawn(ours(std::move(high), 1), pool);
                                          static_cast<void>(std::move(first).get());
                                          static_cast<void>(std::move(second).get());
                                      }},
                                     300);
    const std::string elements = "{\"elements\": " + std::to_string(size);
    bench::print({"two_halves", elements + "}", both[1], "us", both[0], name});

    cuda::foreign_stream theirs(gpu, streams[0]);
    single_stream own(gpu);
    const auto one_half = [&](scheduling_policy& on) {
        return [&] { static_cast<void>(sync(ours(tensor<float>(on.next(), {half}), 0), on)); };
    };
    const auto on_one = bench::medians({one_half(own), one_half(theirs)}, 300);
    bench::print(
        {"foreign_stream", elements + ", \"baseline\": \"a stream of Sluice\"}", on_one[1], "us", on_one[0], name});

    for (cudaStream_t const each : streams) check(cudaStreamSynchronize(each));
    check(cudaFree(by_hand));
    check(cudaFreeHost(in));
    check(cudaFreeHost(out));
}

}  // namespace

int main() try {
    for (const std::size_t size : {std::size_t{1} << 14, std::size_t{1} << 22}) run(size);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
