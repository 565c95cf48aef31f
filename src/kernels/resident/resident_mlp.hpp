// SPDX-License-Identifier: Apache-2.0
// The kernel of a network that stays on a GPU.
#pragma once

#include <cstdint>

#include "kernels/resident/resident_layout.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice {
class device;
}

namespace sluice::kernels {

// How many bytes of shared memory a block may have. Throws errc::unsupported, with the reason, for a GPU without tensor
// cores for 16-bit elements.
std::uint32_t resident_shared_bytes(const device& gpu);
// The most blocks of a lane: 16, or 1 for a GPU without clusters.
std::uint32_t most_blocks_of_lane(const device& gpu);

// Whether the driver loads a kernel at its first launch (CUDA_MODULE_LOADING): it then waits until the GPU is idle.
bool loads_kernels_lazily();

// Puts the kernel on a stream of the GPU, where it stays. For library calls. Throws device_error. Once it has ended,
// note_resident_end is called: until then no memory is given back to the GPU's driver.
void start_resident(const native_stream& on, const resident_call& call, bool is_bfloat16, std::uint32_t lanes);
void note_resident_end() noexcept;

}  // namespace sluice::kernels
