// SPDX-License-Identifier: Apache-2.0
// The arithmetic on one element, the same on the host and in kernels.
#pragma once

#include <cstddef>

#include "sluice/base/kernel.hpp"

namespace sluice::stress {

inline constexpr std::size_t inner_rounds = 4;

// Maps a whole number below 2^24 to 0 to 250.
SLUICE_KERNEL inline float wrapped(float x) {
    const int rest = static_cast<int>(x) % 251;
    return static_cast<float>(rest < 0 ? rest + 251 : rest);
}
SLUICE_KERNEL inline float changed_by(float x, float k) { return wrapped(3 * x + k); }
SLUICE_KERNEL inline float mix_of(float x, float y, float k) { return wrapped(x + k * y); }
SLUICE_KERNEL inline float half_of(float x) { return static_cast<float>(static_cast<int>(x) / 2); }

}  // namespace sluice::stress
