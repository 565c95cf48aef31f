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

// x[i] = x[i] * g, for i < size
constexpr const char* scale_ptx = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry scale(.param .u64 x, .param .b16 g, .param .u64 size)
{
    .reg .pred %p;
    .reg .b16 %h<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    cvt.u64.u32 %rd1, %r3;
    mad.wide.u32 %rd1, %r1, %r2, %rd1;
    ld.param.u64 %rd2, [size];
    setp.ge.u64 %p, %rd1, %rd2;
    @%p ret;
    ld.param.u64 %rd3, [x];
    cvta.to.global.u64 %rd3, %rd3;
    shl.b64 %rd4, %rd1, 1;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.b16 %h1, [%rd5];
    ld.param.b16 %h2, [g];
    mul.rn.f16 %h1, %h1, %h2;
    st.global.b16 [%rd5], %h1;
    ret;
}
)";

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    tensor<__half> x = sync(zeros<__half>({elements}), policy);
    const __half g = __float2half(1.0f);
    const kernel_module module =
        load_module(gpu, std::as_bytes(std::span(scale_ptx, std::string_view(scale_ptx).size())));
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
