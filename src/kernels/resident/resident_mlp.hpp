// SPDX-License-Identifier: Apache-2.0
// The kernel of a network that stays on a GPU.
#pragma once

#include <cstdint>

#include "kernels/fused_mlp/fused_mlp_dispatch.hpp"
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

// Puts the kernel on a stream of the GPU, where it stays. For library calls; see launch_staying. Throws device_error.
void start_resident(const native_stream& on, const resident_call& call, fused_type type, std::uint32_t lanes);

}  // namespace sluice::kernels
