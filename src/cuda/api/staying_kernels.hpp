// SPDX-License-Identifier: Apache-2.0
// staying_kernels: how many kernels stay on GPUs until its owner ends them. Calls of CUDA that wait until a GPU is idle
// would never return, so until the last such kernel has ended, memory that is to be freed is only noted (cudaFree and
// cudaFreeHost wait), and what would load code is refused.
//
// Thread safety: all functions may be called on any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

#include "cuda/api/gpu_context.hpp"
#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

// Called before a kernel that stays is launched. Waits until no call that would wait for that kernel is running;
// false when that takes longer than this, and then the kernel must not be launched. Not called by a thread that has a
// no_staying_kernel.
[[nodiscard]] bool begin_staying_kernel(std::chrono::nanoseconds longest) noexcept;
// It has ended, or was not launched. Frees what has been noted.
void end_staying_kernel() noexcept;

struct freed_memory {
    void* data;
    std::size_t bytes;
    const gpu_context* of;
};
// Frees the memory by `free`, now or later.
void free_when_possible(const freed_memory& memory, void (*free)(const freed_memory&) noexcept) noexcept;

// While it lives no kernel stays, and none begins. A thread may have several. Its owner does not wait for other threads
// of the process: one of them may be about to begin a kernel that stays.
class [[nodiscard]] no_staying_kernel {
public:
    // Throws errc::unsupported while a kernel stays. `what` cannot be done: "create a handle of cuBLASLt".
    no_staying_kernel(std::string_view what, const error_context& context);
    no_staying_kernel(const no_staying_kernel&) = delete;  // it is counted
    no_staying_kernel& operator=(const no_staying_kernel&) = delete;
    ~no_staying_kernel();
};

}  // namespace sluice::cuda::api
