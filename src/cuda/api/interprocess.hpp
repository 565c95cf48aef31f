// SPDX-License-Identifier: Apache-2.0
// The calls of CUDA that export memory and events to other processes, and import them.
//
// The device must be current where the comment does not name one. The functions throw device_error.
#pragma once

#include <array>
#include <cstddef>

#include "cuda/api/runtime.hpp"

namespace sluice::cuda::api {

// A cudaIpcMemHandle_t, or a cudaIpcEventHandle_t.
using interprocess_handle = std::array<std::byte, 64>;

// The allocation that an address of device memory lies in.
struct allocation {
    const void* begin = nullptr;  // null when the driver does not know
    std::size_t bytes = 0;
    bool has_handle = false;  // whether CUDA gives a handle of it: only plain cudaMalloc's
};
allocation allocation_of(const void* data);

std::array<std::byte, 16> uuid_of(int ordinal, const error_context& context);

// `begin` is where an allocation begins.
interprocess_handle memory_handle(const void* begin, const error_context& context);
// Where the other process's allocation begins in this one; each call needs a close_memory, in the same context.
void* open_memory(const interprocess_handle& handle, const error_context& context);
void close_memory(const gpu_context& on, void* begin) noexcept;

event_handle create_interprocess_event(const error_context& context);
interprocess_handle handle_of(CUevent_st* event, const error_context& context);
event_handle open_event(const interprocess_handle& handle, const error_context& context);

}  // namespace sluice::cuda::api
