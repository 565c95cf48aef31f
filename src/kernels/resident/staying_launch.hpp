// SPDX-License-Identifier: Apache-2.0
// The launch of a kernel that stays on a GPU, and what must hold before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice::kernels {

// Whether the driver loads a kernel at its first launch (CUDA_MODULE_LOADING): it then waits until the GPU is idle.
bool loads_kernels_lazily(const error_context& context);

struct staying_launch {
    const void* function;  // the __global__ function
    std::uint32_t blocks;
    std::uint32_t blocks_of_cluster;  // 1 for none
    std::uint32_t threads;            // of a block
    std::uint32_t shared_bytes;       // of a block
    void** arguments;                 // as cudaLaunchKernel takes them
};

// Before the launch, by a thread that holds no lock of the library: waits until no other thread is in a call of CUDA
// that would wait for the kernel's end. False when that takes longer than this. From then on such calls are refused,
// and no memory is given back to the GPU's driver, until note_staying_end is called: when the kernel has ended, or is
// not launched.
[[nodiscard]] bool note_staying_begin(std::chrono::nanoseconds longest) noexcept;
void note_staying_end() noexcept;
// Puts the kernel on a stream of the GPU, where it stays. For library calls. Throws device_error.
void launch_staying(const native_stream& on, const staying_launch& how, const error_context& context);

}  // namespace sluice::kernels
