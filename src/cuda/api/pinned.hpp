// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory. It is this process's own memory, which the driver locks: so it stays readable when
// other code resets the GPU, where the driver would take its own away, and the next access would end the process. It is
// also faster to make: 49 us for 512 B and 3.3 ms for 16 MB, against 590 us and 4.7 ms; copies take the same time
// (measured on an H200 machine).
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/api/gpu_context.hpp"

namespace sluice::cuda::api {

// Null when there is not enough memory. In the context of the innermost scope; all GPUs may use it.
void* allocate_pinned(std::size_t bytes);
// With the number of bytes that was requested.
void free_pinned(const gpu_context& of, void* data, std::size_t bytes) noexcept;

// An owner of one object in such memory.
template <typename T>
struct free_pinned_object {
    const gpu_context* of = nullptr;
    void operator()(T* data) const noexcept { free_pinned(*of, data, sizeof(T)); }
};
template <typename T>
using pinned_object = std::unique_ptr<T, free_pinned_object<T>>;

}  // namespace sluice::cuda::api
