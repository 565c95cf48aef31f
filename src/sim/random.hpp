// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers: splitmix64 (Steele, Lea, Flood 2014), well mixed even for consecutive seeds.
#pragma once

#include <cstdint>

namespace sluice::sim::detail {

class random {
public:
    explicit random(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint32_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
    }
    // A number below `bound`; the distribution is almost uniform.
    std::uint32_t draw(std::uint32_t bound) noexcept {
        return static_cast<std::uint32_t>((std::uint64_t{next()} * bound) >> 32);
    }

private:
    std::uint64_t state_;
};

}  // namespace sluice::sim::detail
