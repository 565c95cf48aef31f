// SPDX-License-Identifier: Apache-2.0
// The calls of CUDA for memory, and what CUDA knows of an address.
#pragma once

#include <cstddef>
#include <string>

#include "cuda/api/gpu_context.hpp"

namespace sluice::cuda::api {

// Whether the driver may copy from this host memory after the call returns, instead of reading it before.
bool is_pinned(const void* data) noexcept;
// Why these bytes are not memory of this GPU that its kernels and copies can use: "it is page-locked host memory";
// empty when they are. Looks at the first and the last byte, and at the whole range where one cudaMalloc has made it.
std::string why_not_memory_of(int ordinal, const void* data, std::size_t bytes);
bool is_memory_of(int ordinal, const void* data) noexcept;
// Null when there is not enough memory. In the context of the innermost scope.
void* allocate_device(std::size_t bytes);
// Frees it when its context is usable; otherwise it is gone already.
void free_device(const gpu_context& of, void* data) noexcept;

}  // namespace sluice::cuda::api
