// SPDX-License-Identifier: Apache-2.0
// What the driver takes for a launch, in the ways that a launch can be made: N launches of a tiny kernel on one stream,
// submit and wait. With the driver API and a kept handle: three parameters as pointers, one struct of 40 bytes as a
// pointer, the same in one buffer (CU_LAUNCH_PARAM_BUFFER_POINTER), and with cuLaunchKernelEx.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

struct closure {
    std::size_t columns, rows;
    __half factor;
    __half* data;
    std::size_t size;
};

__global__ void by_parameters(__half* x, __half g, std::size_t size) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] = __hmul(x[i], g);
}
__global__ void by_struct(const closure all) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < all.columns && i < all.size) all.data[i] = __hmul(all.data[i], all.factor);
}

void check(cudaError_t code) {
    if (code == cudaSuccess) return;
    std::printf("%s\n", cudaGetErrorString(code));
    std::exit(1);
}
void check(CUresult code) {
    if (code == CUDA_SUCCESS) return;
    std::printf("driver: error %d\n", static_cast<int>(code));
    std::exit(1);
}

template <typename Function>
Function find(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    return reinterpret_cast<Function>(found);
}

}  // namespace

int main() {
    constexpr std::size_t elements = 2048;
    constexpr unsigned blocks = elements / 256;
    __half* data = nullptr;
    check(cudaMalloc(&data, elements * sizeof(__half)));
    check(cudaMemset(data, 0, elements * sizeof(__half)));
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaFunction_t plain = nullptr, whole = nullptr;
    check(cudaGetFuncBySymbol(&plain, reinterpret_cast<const void*>(&by_parameters)));
    check(cudaGetFuncBySymbol(&whole, reinterpret_cast<const void*>(&by_struct)));
    const auto launch = find<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    const auto launch_with = find<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");

    __half factor = __float2half(1.0f);
    std::size_t size = elements;
    void* three[] = {&data, &factor, &size};
    closure all{elements, 1, factor, data, elements};
    void* one[] = {&all};
    std::size_t bytes = sizeof(all);
    void* buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &all, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUlaunchConfig how{};
    how.gridDimX = blocks;
    how.gridDimY = how.gridDimZ = how.blockDimY = how.blockDimZ = 1;
    how.blockDimX = 256;
    how.hStream = stream;

    struct way {
        const char* name;
        std::function<void()> once;
        std::vector<double> times = {};
    };
    std::vector<way> ways{
        {"<<<>>>", [&] { by_parameters<<<blocks, 256, 0, stream>>>(data, factor, size); }},
        {"three parameters", [&] { check(launch(plain, blocks, 1, 1, 256, 1, 1, 0, stream, three, nullptr)); }},
        {"one struct", [&] { check(launch(whole, blocks, 1, 1, 256, 1, 1, 0, stream, one, nullptr)); }},
        {"one struct, as a buffer", [&] { check(launch(whole, blocks, 1, 1, 256, 1, 1, 0, stream, nullptr, buffer)); }},
        {"one struct, cuLaunchKernelEx", [&] { check(launch_with(&how, whole, one, nullptr)); }},
        {"one struct as a buffer, cuLaunchKernelEx", [&] { check(launch_with(&how, whole, nullptr, buffer)); }},
    };
    for (const int n : {10, 1000}) {
        for (int round = 0; round < (n == 10 ? 2000 : 200); ++round) {
            for (way& each : ways) {
                const auto begin = std::chrono::steady_clock::now();
                for (int i = 0; i < n; ++i) each.once();
                check(cudaStreamSynchronize(stream));
                const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
                each.times.push_back(took.count());
            }
        }
        for (way& each : ways) {
            std::ranges::sort(each.times);
            std::printf("n = %d, %s: %.2f us, %.4f us each\n", n, each.name, each.times[each.times.size() / 2],
                        each.times[each.times.size() / 2] / n);
            each.times.clear();
        }
    }
}
