// SPDX-License-Identifier: Apache-2.0
// What a reduction carries along and how two of them become one; one source for both sides. Where the elements are and
// who takes which is reduce.cu's affair: it may split a row as it likes, as long as each taker takes in order.
//
// A state is trivial, so that it may be in shared memory; it begins as nothing().
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/reduction/extrema.hpp"
#include "sluice/base/kernel.hpp"
#include "sluice/kernels/reduce.hpp"

namespace sluice::kernels {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

template <reduction What>
struct reducer;

// A sum, and what rounding has taken from it: after each addition the part that was lost is known exactly
// (Knuth, TAOCP 2, 4.2.2, theorem B). It needs that no compiler reorders additions.
struct running_sum {
    float sum;
    float lost;

    SLUICE_KERNEL void add(float x) {
        const float next = sum + x;
        const float of_x = next - sum;
        lost += (sum - (next - of_x)) + (x - of_x);
        sum = next;
    }
    SLUICE_KERNEL float value() const { return sum - sum == 0 ? sum + lost : sum; }  // infinity and NaN as they are
};

template <>
struct reducer<reduction::sum> {
    using state = running_sum;
    SLUICE_KERNEL static state nothing() { return {0, 0}; }
    SLUICE_KERNEL static void take(state& all, float x, std::uint64_t) { all.add(x); }
    SLUICE_KERNEL static void join(state& all, const state& other) {
        all.add(other.sum);
        all.lost += other.lost;
    }
    SLUICE_KERNEL static float result(const state& all, std::uint64_t) { return all.value(); }
};

template <>
struct reducer<reduction::mean> : reducer<reduction::sum> {
    SLUICE_KERNEL static float result(const state& all, std::uint64_t count) {
        return all.value() / static_cast<float>(count);
    }
};

template <>
struct reducer<reduction::max> {
    using state = float;
    SLUICE_KERNEL static state nothing() { return -infinity; }
    SLUICE_KERNEL static void take(state& all, float x, std::uint64_t) { all = maximum(all, x); }
    SLUICE_KERNEL static void join(state& all, const state& other) { take(all, other, 0); }
    SLUICE_KERNEL static float result(const state& all, std::uint64_t) { return all; }
};

template <>
struct reducer<reduction::min> {
    using state = float;
    SLUICE_KERNEL static state nothing() { return infinity; }
    SLUICE_KERNEL static void take(state& all, float x, std::uint64_t) { all = minimum(all, x); }
    SLUICE_KERNEL static void join(state& all, const state& other) { take(all, other, 0); }
    SLUICE_KERNEL static float result(const state& all, std::uint64_t) { return all; }
};

// The largest so far, by its order_key, and where it was first.
struct largest {
    std::uint64_t place;
    std::int32_t key;
    std::uint32_t filler;  // not left undefined: states are copied whole
};

template <>
struct reducer<reduction::argmax> {
    using state = largest;
    // Smaller than the key of every number.
    SLUICE_KERNEL static state nothing() { return {~std::uint64_t{0}, -0x7fff'ffff - 1, 0}; }
    SLUICE_KERNEL static void take(state& all, float x, std::uint64_t place) {
        const std::int32_t key = order_key(x);
        if (key > all.key) {
            all.key = key;
            all.place = place;
        }
    }
    SLUICE_KERNEL static void join(state& all, const state& other) {
        if (other.key == all.key ? other.place < all.place : other.key > all.key) all = other;
    }
    SLUICE_KERNEL static std::int64_t result(const state& all, std::uint64_t) {
        return static_cast<std::int64_t>(all.place);
    }
};

}  // namespace sluice::kernels
