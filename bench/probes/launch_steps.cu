// SPDX-License-Identifier: Apache-2.0
// Where the time of a launch goes between the driver's call and a command of Sluice: N dependent launches of one tiny
// kernel on one stream, submitted and waited for, with one layer more at each step.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "cuda/api/commands.hpp"
#include "cuda/api/driver.hpp"
#include "cuda/api/runtime.hpp"
#include "sluice/cuda/kernel_module.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/sluice.hpp"
#include "support/scale_chain.cuh"
#include "support/timing.hpp"

using namespace sluice;

namespace {

void check(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

void run() {
    runtime machine;
    device& gpu = machine.find("cuda:0");
    single_stream policy(gpu);
    tensor<__half> x = sync(zeros<__half>({bench::elements}), policy);
    const __half g = __float2half(1.0f);
    const stream on = policy.next();
    stream_interpreter& waistless = on.native().queue->interpreter();
    const auto handle = static_cast<CUstream>(on.native().handle);
    const auto launch_kernel = cuda::api::driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");

    // By hand: three parameters.
    CUfunction const by_hand = cuda::api::find_kernel(reinterpret_cast<const void*>(&bench::scale_by_hand), {});
    std::size_t size = bench::elements;
    __half* data = x.device_data();
    __half factor = g;
    void* three[] = {&data, &factor, &size};

    // The command that launch_on makes.
    using binding =
        detail::argument_binding<detail::kernel_signature<bench::scale>::parameters, __half, tensor<__half>>;
    const auto values = binding::bind({}, g, x);
    const auto accesses = binding::accesses(g, x);
    using body = detail::launch_body<bench::scale, index_1d, decltype(values)>;
    body::closure closure{bench::elements, 1, values, {}};
    const launch_command command = body::command(closure);
    const command_info info{"scale", accesses};
    CUfunction const ours = cuda::api::find_kernel(command.device_function, {});
    void* one[] = {&closure};

    // The same for a function of a module.
    const kernel_module module = load_module(gpu, std::as_bytes(std::span(bench::scale_ptx)));
    const auto function = module.function<void(__half*, __half, std::size_t)>("scale");
    auto* const module_kernel = static_cast<CUfunction>(function.handle()->handle);
    using parameters = decltype(function)::parameters;
    using module_binding = detail::argument_binding<parameters, tensor<__half>, __half, std::size_t>;
    const auto block = detail::module_call<parameters, tensor<__half>, __half, std::size_t>::bind({}, x, g, size);
    const auto module_accesses = module_binding::accesses(x, g, size);
    launch_command module_command;
    module_command.grid = {bench::elements / 256};
    module_command.block = {256};
    module_command.closure = block.data();
    module_command.closure_bytes = sizeof(block);
    module_command.function = function.handle().get();
    const command_info module_info{"scale", module_accesses};

    cudaStream_t other = nullptr;
    check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    const auto driver = [&](CUfunction kernel, cudaStream_t to, void** arguments) {
        if (launch_kernel(kernel, bench::elements / 256, 1, 1, 256, 1, 1, 0, to, arguments, nullptr) != CUDA_SUCCESS)
            throw std::runtime_error("cuLaunchKernel");
    };
    struct way {
        const char* name;
        std::function<void(std::size_t)> launches;
        bool is_waist = false;
    };
    const auto times_n = [](auto once) {
        return [once](std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) once();
        };
    };
    const std::vector<way> ways{
        {"cuLaunchKernel, three parameters, other stream", times_n([&] { driver(by_hand, other, three); })},
        {"cuLaunchKernel, three parameters", times_n([&] { driver(by_hand, handle, three); })},
        {"cuLaunchKernel, closure", times_n([&] { driver(ours, handle, one); })},
        {"api::launch", times_n([&] { cuda::api::launch(ours, command, handle, {}); })},
        {"the stream's interpreter", times_n([&] { waistless.launch(info, command); })},
        {"stream::launch", times_n([&] { on.launch(info, command); })},
        {"launch_on", times_n([&] { launch_on(on, bench::scale{}, each_of(x), g, x); })},
        {"module: cuLaunchKernel, three parameters", times_n([&] { driver(module_kernel, handle, three); })},
        {"module: api::launch", times_n([&] { cuda::api::launch(module_kernel, module_command, handle, {}); })},
        {"module: the stream's interpreter", times_n([&] { waistless.launch(module_info, module_command); })},
        {"module: stream::launch", times_n([&] { on.launch(module_info, module_command); })},
        {"module: launch_on",
         times_n([&] { launch_on(on, function, blocks(bench::elements / 256, 256), x, g, bench::elements); })},
        {"sync(with_context(launch_on))",
         [&](std::size_t n) {
             sync(with_context([&](execution_context& context) {
                      for (std::size_t i = 0; i < n; ++i) launch_on(context.stream(), bench::scale{}, each_of(x), g, x);
                  }),
                  policy);
         },
         true},
        {"sync(chain)", [&](std::size_t n) { x = sync(bench::chain(std::move(x), n), policy); }, true},
        {"<<<>>>",
         times_n([&] { bench::scale_by_hand<<<bench::elements / 256, 256, 0, handle>>>(data, factor, size); })},
    };
    for (const std::size_t n : {1, 10, 100, 1000}) {
        std::vector<std::function<void()>> versions;
        std::vector<std::vector<double>> submits(ways.size());
        for (std::size_t w = 0; w < ways.size(); ++w) {
            versions.emplace_back([&, w] {
                const auto begin = std::chrono::steady_clock::now();
                ways[w].launches(n);
                submits[w].push_back(bench::microseconds(std::chrono::steady_clock::now() - begin).count());
                if (!ways[w].is_waist) check(cudaStreamSynchronize(w == 0 ? other : handle));
            });
        }
        const auto times = bench::medians(versions, n == 1000 ? 300 : 3000);
        for (std::size_t w = 0; w < ways.size(); ++w) {
            std::ranges::sort(submits[w]);
            std::printf("n = %4zu  %-50s %9.3f us, %7.4f each; submit %7.4f each\n", n, ways[w].name, times[w],
                        times[w] / double(n), submits[w][submits[w].size() / 2] / double(n));
        }
    }
    check(cudaStreamDestroy(other));
}

}  // namespace

int main() try { run(); } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
