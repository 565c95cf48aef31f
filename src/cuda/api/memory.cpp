// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/memory.hpp"

#include <cuda.h>

#include <new>

#include "cuda/api/driver.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"

namespace sluice::cuda::api {
namespace {

constexpr int of_no_allocation = 0;

// What the driver knows of an address.
struct known_address {
    int memory_type = of_no_allocation;
    int ordinal = -1;
    int is_managed = 0;
};

// Throws device_error.
known_address look_up(const void* data) {
    static const auto get = driver_function<decltype(&cuPointerGetAttributes)>("cuPointerGetAttributes");
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    known_address found;
    void* into[] = {&found.memory_type, &found.ordinal, &found.is_managed};
    check_driver(get(3, which, into, address(data)), "cuPointerGetAttributes", {});
    return found;
}

}  // namespace

bool is_pinned(const void* data) noexcept {
    try {
        return look_up(data).memory_type != of_no_allocation;
    } catch (...) {
        return true;  // unknown: assume pinned, the safe answer
    }
}

namespace {

// What the address is, when it is not device memory of this GPU; else empty.
std::string why_not_at(int ordinal, const void* data) {
    const known_address found = look_up(data);
    if (found.is_managed != 0) return "managed memory: copy it to memory of the GPU first";
    switch (found.memory_type) {
        case CU_MEMORYTYPE_DEVICE:
            if (found.ordinal == ordinal) return {};
            return "memory of GPU " + std::to_string(found.ordinal) + ", and this is GPU " + std::to_string(ordinal);
        case CU_MEMORYTYPE_HOST: return "page-locked host memory: adopt it on a CPU device, or upload it";
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
    try {
        const known_address found = look_up(data);
        return found.memory_type == CU_MEMORYTYPE_DEVICE && found.is_managed == 0 && found.ordinal == ordinal;
    } catch (...) {
        return false;
    }
}

void* allocate_device(std::size_t bytes) {
    static const auto allocate = driver_function<decltype(&cuMemAlloc)>("cuMemAlloc");
    CUdeviceptr made = 0;
    const CUresult code = allocate(&made, bytes);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check_driver(code, "cuMemAlloc", {});
    return reinterpret_cast<void*>(made);
}

// Destructors call it, which cannot report errors.
void free_device(const gpu_context& of, void* data) noexcept {
    free_when_possible({data, 0, &of}, [](const freed_memory& noted) noexcept {
        static const auto free = driver_function<decltype(&cuMemFree)>("cuMemFree");
        const device_scope scope(*noted.of, std::nothrow);
        if (scope.is_open()) static_cast<void>(free(address(noted.data)));
    });
}

}  // namespace sluice::cuda::api
