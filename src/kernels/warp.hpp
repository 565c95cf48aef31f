// SPDX-License-Identifier: Apache-2.0
// What every GPU's kernels have in common.
#pragma once

namespace sluice::kernels {

inline constexpr unsigned warp_size = 32;  // threads that execute together

}  // namespace sluice::kernels
