// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): four random
// words for each counter, with no state in between, so that every element of a tensor can be made by itself. The same
// on the host and in kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice {

// The random bits of one counter.
struct philox_words {
    std::uint32_t word[4];  // each uniform in 32 bits
};

// The words of one counter. `seed` is the key, `stream` the upper half of the counter. Costs O(1): ten rounds.
SLUICE_KERNEL inline philox_words philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
    std::uint32_t key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    philox_words x{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xd2511f53u} * x.word[0];
        const std::uint64_t second = std::uint64_t{0xcd9e8d57u} * x.word[2];
        x = {{static_cast<std::uint32_t>(second >> 32) ^ x.word[1] ^ key0, static_cast<std::uint32_t>(second),
              static_cast<std::uint32_t>(first >> 32) ^ x.word[3] ^ key1, static_cast<std::uint32_t>(first)}};
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return x;
}

// A multiple of 2^-24 in [0, 1). Costs O(1).
SLUICE_KERNEL inline float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

namespace detail {
// The natural logarithm of a normal number, within 1e-7 relative. Written with fma and lone products only, so that
// every compiler rounds in the same places and the host and a GPU agree to the last bit. log(1 + f) = 2 artanh(f / (2 +
// f)).
SLUICE_KERNEL inline float portable_log(float x) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
    const int exponent = static_cast<int>((bits - 0x3f3504f3u) >> 23) - (bits < 0x3f3504f3u ? 512 : 0);
    const float m =
        __builtin_bit_cast(float, bits - (static_cast<std::uint32_t>(exponent) << 23));  // sqrt(1/2) .. sqrt(2)
    const float f = m - 1.0f;
    const float s = f / (2.0f + f);
    const float z = s * s;
    float series = 1.0f / 9;
    series = fmaf(series, z, 1.0f / 7);
    series = fmaf(series, z, 1.0f / 5);
    series = fmaf(series, z, 1.0f / 3);
    series = fmaf(series, z, 1.0f);
    return fmaf(static_cast<float>(exponent), 0.69314718f, 2.0f * s * series);
}
}  // namespace detail

// A number of the standard normal distribution, by its inverse (M. Giles, "Approximating the erfinv function", 2010),
// within 2e-5 up to 5.2 away from 0 and within 0.005 beyond, where one in five million lies; none is beyond 6.4. Costs
// O(1).
SLUICE_KERNEL inline float normal_from(std::uint32_t word) {
    const bool is_upper = word >= 0x80000000u;
    const std::uint32_t from_end = is_upper ? ~word : word;
    const float p = fmaf(static_cast<float>(from_end), 0x1p-32f, 0x1p-33f);  // the smaller tail
    const float x = fmaf(p, -2.0f, 1.0f);                                    // 0 in the middle, 1 at the end
    const float w = -detail::portable_log(4.0f * p * (1.0f - p));            // -log(1 - x * x)
    float y = 0;
    if (w < 5.0f) {
        const float v = w - 2.5f;
        y = 2.81022636e-08f;
        y = fmaf(y, v, 3.43273939e-07f);
        y = fmaf(y, v, -3.5233877e-06f);
        y = fmaf(y, v, -4.39150654e-06f);
        y = fmaf(y, v, 0.00021858087f);
        y = fmaf(y, v, -0.00125372503f);
        y = fmaf(y, v, -0.00417768164f);
        y = fmaf(y, v, 0.246640727f);
        y = fmaf(y, v, 1.50140941f);
    } else {
        const float v = sqrtf(w) - 3.0f;
        y = -0.000200214257f;
        y = fmaf(y, v, 0.000100950558f);
        y = fmaf(y, v, 0.00134934322f);
        y = fmaf(y, v, -0.00367342844f);
        y = fmaf(y, v, 0.00573950773f);
        y = fmaf(y, v, -0.0076224613f);
        y = fmaf(y, v, 0.00943887047f);
        y = fmaf(y, v, 1.00167406f);
        y = fmaf(y, v, 2.83297682f);
    }
    const float away = y * x * 1.41421356f;
    return is_upper ? away : -away;
}

}  // namespace sluice
