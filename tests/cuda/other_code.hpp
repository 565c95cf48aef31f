// SPDX-License-Identifier: Apache-2.0
// What the suites about other CUDA code in the process share: kernels that take a given time, pipelines with a known
// result, and the driver's functions without a link to the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sluice/runtime/native_call.hpp"
#include "sluice/sluice.hpp"

#define EXPECT_CUDA(call) EXPECT_EQ(static_cast<int>(call), 0) << #call
#define ASSERT_CUDA(call) ASSERT_EQ(static_cast<int>(call), 0) << #call

namespace sluice::other_code {

using numbers = std::vector<float>;

// `spin_for` runs on the GPU only: the suites have no CPU devices.
__host__ __device__ inline void spin_for(long long nanoseconds) {
#if defined(__CUDA_ARCH__)
    unsigned long long begin = 0, now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < static_cast<unsigned long long>(nanoseconds));
#else
    static_cast<void>(nanoseconds);
#endif
}

struct scale_by {
    SLUICE_KERNEL void operator()(index_1d at, float factor, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element *= factor;
    }
};
struct slowly_scale_by {
    SLUICE_KERNEL void operator()(index_1d at, long long nanoseconds, float factor, disjoint_view<float> x) const {
        if (float* element = x.at(at)) {
            spin_for(nanoseconds);
            *element *= factor;
        }
    }
};
struct slowly_copy {
    SLUICE_KERNEL void operator()(index_1d at, long long nanoseconds, view<const float> from,
                                  disjoint_view<float> to) const {
        if (float* element = to.at(at)) {
            spin_for(nanoseconds);
            *element = from[at.value()];
        }
    }
};

inline auto scaled(tensor<float> x, float factor) {
    auto range = each_of(x);
    return launch(scale_by{}, range, factor, std::move(x));
}
inline auto slowly_scaled(tensor<float> x, float factor, std::chrono::nanoseconds takes) {
    auto range = each_of(x);
    return launch(slowly_scale_by{}, range, static_cast<long long>(takes.count()), factor, std::move(x));
}
// Gives the value twice.
inline auto doubled(std::size_t size, float value) {
    return upload(numbers(size, value)).and_then([](auto x) { return scaled(std::move(x), 2); }).and_then(download);
}
// Keeps the stream at work.
inline auto busy(std::chrono::nanoseconds takes) {
    return full<float>({1}, 1.f).and_then([takes](auto x) { return slowly_scaled(std::move(x), 2, takes); });
}

// Runs the pipeline; what is wrong throws.
inline void require_right(scheduling_policy& on, std::size_t size = 1000, float value = 3) {
    for (const float each : sync(doubled(size, value), on)) {
        if (each != 2 * value) throw std::runtime_error("a wrong result: " + std::to_string(each));
    }
}
inline task<float> awaited(scheduling_policy& on, float value) {
    auto operation = doubled(1000, value);
    auto future = spawn(std::move(operation), on);
    const numbers all = co_await std::move(future);
    co_return all[7];
}
// The message of what it throws; empty when it throws nothing.
template <typename Function>
std::string failure_of(Function&& f) {
    try {
        f();
    } catch (const std::exception& failure) {
        return failure.what();
    }
    return "";
}

inline cudaStream_t stream_of(const native_stream& on) { return static_cast<cudaStream_t>(on.handle); }

// A function of the driver by the very name that its library has. Null when the driver does not have it.
template <typename Function>
Function driver_symbol(const char* name) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(driver, name));
}
inline CUcontext current_context() {
    static const auto get = driver_symbol<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
    CUcontext found = nullptr;
    EXPECT_CUDA(get(&found));
    return found;
}
inline void set_context(CUcontext made_current) {
    static const auto set = driver_symbol<CUresult (*)(CUcontext)>("cuCtxSetCurrent");
    EXPECT_CUDA(set(made_current));
}
// The calling thread's capture mode.
inline CUstreamCaptureMode capture_mode() {
    static const auto exchange = driver_symbol<CUresult (*)(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode");
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_CUDA(exchange(&mode));
    CUstreamCaptureMode found = mode;
    EXPECT_CUDA(exchange(&mode));
    return found;
}

// A machine with GPUs and no CPU device.
struct gpu_machine {
    runtime devices{{.cpu_devices = 0}};
    device& gpu = devices.find("cuda:0");
    round_robin pool{gpu, 4};
};

// A stream of other code.
class their_stream {
public:
    their_stream() { EXPECT_CUDA(cudaStreamCreateWithFlags(&made_, cudaStreamNonBlocking)); }
    their_stream(const their_stream&) = delete;  // it owns the stream
    their_stream& operator=(const their_stream&) = delete;
    ~their_stream() { EXPECT_CUDA(cudaStreamDestroy(made_)); }
    cudaStream_t get() const { return made_; }

private:
    cudaStream_t made_ = nullptr;
};

// Memory of other code, filled with zeros.
class their_memory {
public:
    explicit their_memory(std::size_t bytes) {
        EXPECT_CUDA(cudaMalloc(&made_, bytes));
        EXPECT_CUDA(cudaMemset(made_, 0, bytes));
        EXPECT_CUDA(cudaDeviceSynchronize());
    }
    their_memory(const their_memory&) = delete;  // it owns the memory
    their_memory& operator=(const their_memory&) = delete;
    ~their_memory() { EXPECT_CUDA(cudaFree(made_)); }
    float* get() const { return static_cast<float*>(made_); }

private:
    void* made_ = nullptr;
};

}  // namespace sluice::other_code
