// SPDX-License-Identifier: Apache-2.0
#include "cuda/api/interprocess.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <new>

#include "cuda/api/driver.hpp"

namespace sluice::cuda::api {
namespace {

template <typename Handle>
interprocess_handle to_bytes(const Handle& handle) {
    static_assert(sizeof(Handle) == sizeof(interprocess_handle));
    interprocess_handle made{};
    std::memcpy(made.data(), &handle, sizeof(handle));
    return made;
}

template <typename Handle>
Handle from_bytes(const interprocess_handle& bytes) {
    Handle made{};
    std::memcpy(&made, bytes.data(), sizeof(made));
    return made;
}

}  // namespace

allocation allocation_of(const void* data) {
    static const auto attribute = driver_function<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
    const auto get = [&](auto& value, CUpointer_attribute which) {
        return attribute(&value, which, reinterpret_cast<CUdeviceptr>(data)) == CUDA_SUCCESS;
    };
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    if (!get(begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) || !get(bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE)) return {};
    int has_handle = 0;
    const bool is_known = get(has_handle, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
    return {reinterpret_cast<const void*>(begin), bytes, is_known && has_handle != 0};
}

std::array<std::byte, 16> uuid_of(int ordinal, const error_context& context) {
    // As of CUDA 12 this is the variant that distinguishes the instances of a GPU that is divided.
    static const auto get = driver_function<CUresult (*)(CUuuid*, CUdevice)>("cuDeviceGetUuid");
    CUuuid found{};
    check_driver(get(&found, ordinal), "cuDeviceGetUuid", context);
    std::array<std::byte, 16> made{};
    static_assert(sizeof(found.bytes) == sizeof(made));
    std::memcpy(made.data(), found.bytes, sizeof(made));
    return made;
}

interprocess_handle memory_handle(const void* begin, const error_context& context) {
    static const auto get = driver_function<decltype(&cuIpcGetMemHandle)>("cuIpcGetMemHandle");
    CUipcMemHandle handle{};
    check_driver(get(&handle, address(begin)), "cuIpcGetMemHandle", context);
    return to_bytes(handle);
}

void* open_memory(const interprocess_handle& handle, const error_context& context) {
    static const auto open = driver_function<decltype(&cuIpcOpenMemHandle)>("cuIpcOpenMemHandle");
    CUdeviceptr begin = 0;
    check_driver(open(&begin, from_bytes<CUipcMemHandle>(handle), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                 "cuIpcOpenMemHandle", context);
    return reinterpret_cast<void*>(begin);
}

// Destructors call it, which cannot report errors.
void close_memory(const gpu_context& on, void* begin) noexcept {
    static const auto close = driver_function<decltype(&cuIpcCloseMemHandle)>("cuIpcCloseMemHandle");
    const device_scope scope(on, std::nothrow);
    if (scope.is_open()) static_cast<void>(close(address(begin)));
}

event_handle create_interprocess_event(const error_context& context) {
    static const auto create = driver_function<decltype(&cuEventCreate)>("cuEventCreate");
    CUevent made = nullptr;
    check_driver(create(&made, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS), "cuEventCreate", context);
    return {made, destroy_event{device_scope::innermost()}};
}

interprocess_handle handle_of(CUevent_st* event, const error_context& context) {
    static const auto get = driver_function<decltype(&cuIpcGetEventHandle)>("cuIpcGetEventHandle");
    CUipcEventHandle handle{};
    check_driver(get(&handle, event), "cuIpcGetEventHandle", context);
    return to_bytes(handle);
}

event_handle open_event(const interprocess_handle& handle, const error_context& context) {
    static const auto open = driver_function<decltype(&cuIpcOpenEventHandle)>("cuIpcOpenEventHandle");
    CUevent made = nullptr;
    check_driver(open(&made, from_bytes<CUipcEventHandle>(handle)), "cuIpcOpenEventHandle", context);
    return {made, destroy_event{device_scope::innermost()}};
}

}  // namespace sluice::cuda::api
