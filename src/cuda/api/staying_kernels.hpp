// SPDX-License-Identifier: Apache-2.0
// staying_kernels: how many kernels stay on GPUs until its owner ends them. Calls of CUDA that wait until a GPU is idle
// would never return, so until the last such kernel has ended, memory that is to be freed is only noted (cudaFree and
// cudaFreeHost wait), and what would load code is refused.
//
// Thread safety: all functions may be called on any thread.
#pragma once

#include <string_view>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

// A kernel that stays begins, and has ended. `end_staying_kernel` frees what has been noted.
void begin_staying_kernel() noexcept;
void end_staying_kernel() noexcept;

// Frees the memory by `free`, now or later.
void free_when_possible(void* data, void (*free)(void*) noexcept) noexcept;

// Throws errc::unsupported while a kernel stays. `what` cannot be done: "create a handle of cuBLASLt".
void require_no_staying_kernel(std::string_view what, const error_context& context);

}  // namespace sluice::cuda::api
