// SPDX-License-Identifier: Apache-2.0
// N dependent launches of x = x * g over 2048 halves (8 blocks of 256), submit plus wait: by hand in two ways, with the
// kernel's symbol (<<<>>>) and with the driver's cuLaunchKernel, a kept handle and kept arguments; as commands on a
// stream; and as a chain of operations whose length is known only at run time, also on a stream that replays.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "cuda/api/commands.hpp"
#include "cuda/api/driver.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/scale_chain.cuh"
#include "support/timing.hpp"

using namespace sluice;
using bench::chain;
using bench::elements;
using bench::scale_by_hand;

namespace {

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    single_stream replays(gpu, {.replays = true});
    tensor<__half> x = sync(zeros<__half>({elements}), policy);
    const __half g = __float2half(1.0f);

    __half* by_hand = nullptr;
    check(cudaMalloc(&by_hand, elements * sizeof(__half)));
    check(cudaMemset(by_hand, 0, elements * sizeof(__half)));
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    const auto launch_kernel = cuda::api::driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    CUfunction const kernel = cuda::api::find_kernel(reinterpret_cast<const void*>(&scale_by_hand), {});
    std::size_t size = elements;
    __half factor = g;
    void* arguments[] = {&by_hand, &factor, &size};

    for (const std::size_t n : {1, 10, 100, 1000}) {
        const auto times = bench::medians(
            {[&] {
                 for (std::size_t i = 0; i < n; ++i)
                     scale_by_hand<<<elements / 256, 256, 0, stream>>>(by_hand, g, elements);
                 check(cudaStreamSynchronize(stream));
             },
             [&] {
                 sync(with_context([&](execution_context& context) {
                          for (std::size_t i = 0; i < n; ++i)
                              launch_on(context.stream(), bench::scale{}, each_of(x), g, x);
                      }),
                      policy);
             },
             [&] { x = sync(chain(std::move(x), n), policy); }, [&] { x = sync(chain(std::move(x), n), replays); },
             [&] {
                 for (std::size_t i = 0; i < n; ++i) {
                     if (launch_kernel(kernel, elements / 256, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr) !=
                         CUDA_SUCCESS)
                         throw std::runtime_error("cuLaunchKernel");
                 }
                 check(cudaStreamSynchronize(stream));
             }},
            n == 1000 ? 300 : 2000);
        const std::string machine_name = gpu.properties().name;
        const std::string length = std::to_string(n);
        bench::print({"launch_chain", "{\"n\": " + length + ", \"form\": \"commands\"}", times[1], "us", times[0],
                      machine_name});
        bench::print({"launch_chain", "{\"n\": " + length + ", \"form\": \"operations\"}", times[2], "us", times[0],
                      machine_name});
        const std::string best = ", \"baseline\": \"cuLaunchKernel, kept handle\"}";
        bench::print({"launch_chain", "{\"n\": " + length + ", \"form\": \"commands\"" + best, times[1], "us", times[4],
                      machine_name});
        bench::print({"launch_chain", "{\"n\": " + length + ", \"form\": \"operations\"" + best, times[2], "us",
                      times[4], machine_name});
        bench::print({"launch_chain", "{\"n\": " + length + ", \"form\": \"operations, replayed\"" + best, times[3],
                      "us", times[4], machine_name});
    }
    check(cudaFree(by_hand));
    check(cudaStreamDestroy(stream));
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
