// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <random>

#include "sluice/kernels/random.hpp"

namespace sluice {

std::uint64_t fresh_seed() {
    static const std::uint64_t first = [] {
        std::random_device device;
        const std::uint64_t high = device();
        return high << 32 | device();
    }();
    static std::atomic<std::uint64_t> drawn{0};
    // An odd step: all 2^64 seeds differ.
    return first + drawn.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15u;
}

}  // namespace sluice
