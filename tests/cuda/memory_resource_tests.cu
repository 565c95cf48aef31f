// SPDX-License-Identifier: Apache-2.0
// A GPU's pool as a resource for Thrust and for code with streams of its own, and tensors over memory of a resource of
// theirs. Orders across streams are proved with a kernel that waits for the host.
#include "sluice/cuda/memory_resource.hpp"

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <atomic>
#include <cstddef>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "sluice/sluice.hpp"

namespace sluice::cuda_memory_resource_tests {

static_assert(::cuda::mr::async_resource_with<cuda::device_memory_resource, ::cuda::mr::device_accessible>);
static_assert(any_memory_resource<cuda::device_memory_resource>);

// A resource of other code: cudaMalloc.
struct plain_cuda_memory {
    void* allocate(std::size_t bytes, std::size_t) {
        void* data = nullptr;
        if (cudaMalloc(&data, bytes) != cudaSuccess) throw std::bad_alloc();
        ++live;
        return data;
    }
    void deallocate(void* data, std::size_t, std::size_t) {
        cudaFree(data);
        --live;
    }
    std::atomic<int> live{0};
};

// Waits until the host sets the flag, and then writes.
__global__ void write_late(const volatile int* flag, int* to, int value) {
    while (*flag == 0) {
    }
    *to = value;
}

class cuda_memory_resources : public testing::Test {
protected:
    runtime machine;
    device& gpu = machine.default_device();
    single_stream pool{gpu};
    cudaStream_t theirs = nullptr;

    void SetUp() override { ASSERT_EQ(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess); }
    void TearDown() override {
        if (theirs != nullptr) cudaStreamDestroy(theirs);
    }
};

TEST_F(cuda_memory_resources, thrust_sorts_with_temporary_memory_of_the_pool) {
    cuda::device_memory_resource ours(gpu);
    std::vector<int> numbers(100'000);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>((i * 7919) % numbers.size());
    auto* const x = static_cast<int*>(ours.allocate_async(numbers.size() * sizeof(int), theirs));
    ASSERT_EQ(cudaMemcpyAsync(x, numbers.data(), numbers.size() * sizeof(int), cudaMemcpyHostToDevice, theirs),
              cudaSuccess);
    cuda::stream_allocator scratch(ours, theirs);
    const auto first = thrust::device_pointer_cast(x);
    thrust::sort(thrust::cuda::par_nosync(scratch).on(theirs), first, first + numbers.size());
    ASSERT_EQ(cudaMemcpyAsync(numbers.data(), x, numbers.size() * sizeof(int), cudaMemcpyDeviceToHost, theirs),
              cudaSuccess);
    ours.deallocate_async(x, numbers.size() * sizeof(int), theirs);
    ASSERT_EQ(cudaStreamSynchronize(theirs), cudaSuccess);
    std::vector<int> expected(numbers.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(numbers, expected);
}

TEST_F(cuda_memory_resources, memory_is_not_handed_out_again_while_their_stream_uses_it) {
    cuda::device_memory_resource ours(gpu);
    int* flag = nullptr;
    ASSERT_EQ(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped), cudaSuccess);
    *flag = 0;
    void* const x = ours.allocate(sizeof(int));
    write_late<<<1, 1, 0, theirs>>>(flag, static_cast<int*>(x), 1);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    ours.deallocate_async(x, sizeof(int), theirs);  // returns, although the kernel still waits
    void* const other = ours.allocate(sizeof(int));
    EXPECT_NE(other, x);
    ours.deallocate(other, sizeof(int));
    *flag = 1;
    ASSERT_EQ(cudaStreamSynchronize(theirs), cudaSuccess);
    gpu.synchronize();
    EXPECT_EQ(cudaFreeHost(flag), cudaSuccess);
}

TEST_F(cuda_memory_resources, a_tensor_is_over_memory_of_their_resource) {
    plain_cuda_memory given;
    EXPECT_EQ(sync(fill(allocate_from<float>(gpu, given, {64}), 2.f).and_then(download), pool),
              std::vector<float>(64, 2.f));
    while (given.live != 0) std::this_thread::yield();
}

TEST_F(cuda_memory_resources, host_memory_is_page_locked) {
    host_memory_resource ours(gpu);
    void* const data = ours.allocate(1000);
    cudaPointerAttributes what{};
    ASSERT_EQ(cudaPointerGetAttributes(&what, data), cudaSuccess);
    EXPECT_EQ(what.type, cudaMemoryTypeHost);
    ours.deallocate(data, 1000);
}

TEST_F(cuda_memory_resources, a_cpu_device_has_none) {
    conformance::expect_refused(errc::invalid_argument, {"take host_memory_resource"},
                                [&] { const cuda::device_memory_resource none(machine.find("cpu")); });
}

}  // namespace sluice::cuda_memory_resource_tests
