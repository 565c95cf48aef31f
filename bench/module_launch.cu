// SPDX-License-Identifier: Apache-2.0
// N launches of x = x * g over 2048 halves on one stream, submit plus wait: a function of a module against the same
// kernel compiled in, both as commands; and the module's function by hand with cuLaunchKernel.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "cuda/api/driver.hpp"
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/sluice.hpp"
#include "support/result.hpp"
#include "support/scale_chain.cuh"
#include "support/timing.hpp"

using namespace sluice;
using bench::elements;

namespace {

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    tensor<__half> x = sync(zeros<__half>({elements}), policy);
    const __half g = __float2half(1.0f);
    const kernel_module module = load_module(gpu, std::as_bytes(std::span(bench::scale_ptx)));
    const auto scale = module.function<void(__half*, __half, std::size_t)>("scale");

    const auto launch_kernel = cuda::api::driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    auto* const kernel = static_cast<CUfunction>(scale.handle()->handle);
    cudaStream_t stream = nullptr;
    cuda::api::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    __half* data = x.device_data();
    __half factor = g;
    std::size_t size = elements;
    void* arguments[] = {&data, &factor, &size};

    for (const std::size_t n : {1, 10, 100, 1000}) {
        const auto times = bench::medians(
            {[&] {
                 sync(with_context([&](execution_context& context) {
                          for (std::size_t i = 0; i < n; ++i)
                              launch_on(context.stream(), bench::scale{}, each_of(x), g, x);
                      }),
                      policy);
             },
             [&] {
                 sync(with_context([&](execution_context& context) {
                          for (std::size_t i = 0; i < n; ++i)
                              launch_on(context.stream(), scale, blocks(elements / 256, 256), x, g, elements);
                      }),
                      policy);
             },
             [&] {
                 for (std::size_t i = 0; i < n; ++i) {
                     if (launch_kernel(kernel, elements / 256, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr) !=
                         CUDA_SUCCESS)
                         throw std::runtime_error("cuLaunchKernel");
                 }
                 cuda::api::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
             }},
            n == 1000 ? 300 : 2000);
        const std::string machine_name = gpu.properties().name;
        const std::string length = "{\"n\": " + std::to_string(n) + ", \"baseline\": ";
        bench::print({"module_launch", length + "\"compiled in\"}", times[1], "us", times[0], machine_name});
        bench::print({"module_launch", length + "\"cuLaunchKernel\"}", times[1], "us", times[2], machine_name});
    }
    cuda::api::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
