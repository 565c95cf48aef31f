// N dependent launches of x = x * g over 2048 halves (8 blocks of 256), submit plus wait: by hand, as commands
// on a stream, and as a chain of operations whose length is known only at run time.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/timing.hpp"

using namespace sluice;

namespace {

constexpr std::size_t elements = 2048;

__global__ void scale_by_hand(__half* x, __half g, std::size_t size) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] = __hmul(x[i], g);
}

struct scale {
    SLUICE_KERNEL void operator()(index_1d at, __half g, disjoint_view<__half> x) const {
        if (__half* const element = x.at(at)) *element = __hmul(*element, g);
    }
};

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

any_operation<tensor<__half>> chain(tensor<__half> x, std::size_t length) {
    any_operation<tensor<__half>> all = value(std::move(x));
    for (std::size_t i = 0; i < length; ++i) {
        all = std::move(all).and_then(
            [](tensor<__half> y) { return launch(scale{}, each_of(y), __float2half(1.0f), std::move(y)); });
    }
    return all;
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    tensor<__half> x = sync(zeros<__half>({elements}), policy);
    const __half g = __float2half(1.0f);

    __half* by_hand = nullptr;
    check(cudaMalloc(&by_hand, elements * sizeof(__half)));
    check(cudaMemset(by_hand, 0, elements * sizeof(__half)));
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    for (const std::size_t n : {1, 10, 100, 1000}) {
        const auto times =
            bench::medians({[&] {
                                for (std::size_t i = 0; i < n; ++i)
                                    scale_by_hand<<<elements / 256, 256, 0, stream>>>(by_hand, g, elements);
                                check(cudaStreamSynchronize(stream));
                            },
                            [&] {
                                sync(with_context([&](execution_context& context) {
                                         for (std::size_t i = 0; i < n; ++i)
                                             launch_on(context.stream(), scale{}, each_of(x), g, x);
                                     }),
                                     policy);
                            },
                            [&] { x = sync(chain(std::move(x), n), policy); }},
                           n == 1000 ? 300 : 2000);
        const std::string machine_name = gpu.properties().name;
        const std::string size = std::to_string(n);
        bench::print(
            {"launch_chain", "{\"n\": " + size + ", \"form\": \"commands\"}", times[1], "us", times[0], machine_name});
        bench::print({"launch_chain", "{\"n\": " + size + ", \"form\": \"operations\"}", times[2], "us", times[0],
                      machine_name});
    }
    check(cudaFree(by_hand));
    check(cudaStreamDestroy(stream));
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
