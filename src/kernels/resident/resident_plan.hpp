// SPDX-License-Identifier: Apache-2.0
// Plans where the numbers of a network that stays on a GPU lie, and writes its image. Any compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/resident/resident_layout.hpp"
#include "sluice/kernels/fused_mlp.hpp"

namespace sluice::kernels {

// For a network of these sizes (check_fused_mlp has passed), in lanes of that many blocks (1, 4, 8 or 16).
resident_layout plan_resident(const std::vector<mlp_layer>& layers, std::uint32_t blocks, std::uint32_t rows);

// The same for f32, with one block for each lane.
resident_layout plan_resident_f32(const std::vector<mlp_layer>& layers, std::uint32_t rows);

// The weights and biases as the kernel reads them: image_bytes for each block of a lane. T: half, bfloat16 or float.
template <typename T>
std::vector<std::byte> pack_resident(const std::vector<mlp_layer>& layers, const resident_layout& layout);

}  // namespace sluice::kernels
