// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/memory.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cuda/api/driver.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"

namespace sluice::cuda::api {
namespace {

void* null_if_short(cudaError_t code, void* data, std::string_view call) {
    if (code == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        return nullptr;
    }
    check(code, call);
    return data;
}

}  // namespace

bool is_pinned(const void* data) noexcept {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess)
        return attributes.type != cudaMemoryTypeUnregistered;
    static_cast<void>(cudaGetLastError());
    return true;  // unknown: assume pinned, the safe answer
}

namespace {

// What the address is, when it is not device memory of this GPU; else empty.
std::string why_not_at(int ordinal, const void* data) {
    cudaPointerAttributes found{};
    check(cudaPointerGetAttributes(&found, data), "cudaPointerGetAttributes");
    switch (found.type) {
        case cudaMemoryTypeDevice:
            if (found.device == ordinal) return {};
            return "memory of GPU " + std::to_string(found.device) + ", and this is GPU " + std::to_string(ordinal);
        case cudaMemoryTypeHost: return "page-locked host memory: adopt it on a CPU device, or upload it";
        case cudaMemoryTypeManaged: return "managed memory: copy it to memory of the GPU first";
        default:
            return "no memory that CUDA knows: pageable host memory, or not allocated. Upload host memory, or adopt it "
                   "on a CPU device";
    }
}

// The bytes from `data` to the end of its allocation; the maximum where that is not one cudaMalloc's.
std::size_t bytes_to_end(const void* data) {
    static const auto attribute = driver_function<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
    const auto get = [&](auto& value, CUpointer_attribute which) {
        return attribute(&value, which, address(data)) == CUDA_SUCCESS;
    };
    constexpr std::size_t unknown = ~std::size_t{0};
    int is_of_malloc = 0;
    if (!get(is_of_malloc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) || is_of_malloc == 0) return unknown;
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    if (!get(begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) || !get(bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE))
        return unknown;
    return begin + bytes - address(data);
}

}  // namespace

std::string why_not_memory_of(int ordinal, const void* data, std::size_t bytes) {
    if (bytes == 0) return {};
    const device_scope scope(ordinal);
    if (const std::string what = why_not_at(ordinal, data); !what.empty()) return "it is " + what;
    if (const std::size_t there = bytes_to_end(data); there < bytes) {
        return "the tensor has " + std::to_string(bytes) + " bytes, and the allocation ends after " +
               std::to_string(there);
    }
    if (const std::string what = why_not_at(ordinal, static_cast<const char*>(data) + bytes - 1); !what.empty())
        return "its last byte is " + what;
    return {};
}

bool is_memory_of(int ordinal, const void* data) noexcept {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, data) == cudaSuccess)
        return found.type == cudaMemoryTypeDevice && found.device == ordinal;
    static_cast<void>(cudaGetLastError());
    return false;
}

void* allocate_device(std::size_t bytes) {
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, bytes);
    return null_if_short(code, data, "cudaMalloc");
}

void* allocate_pinned(std::size_t bytes) {
    void* data = nullptr;
    const cudaError_t code = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
    return null_if_short(code, data, "cudaHostAlloc");
}

// Destructors call these two and cannot report errors; at the process's end the driver may already be unloaded.
void free_device(void* data) noexcept {
    free_when_possible(data, [](void* noted) noexcept { static_cast<void>(cudaFree(noted)); });
}
void free_pinned(void* data) noexcept {
    free_when_possible(data, [](void* noted) noexcept { static_cast<void>(cudaFreeHost(noted)); });
}

}  // namespace sluice::cuda::api
