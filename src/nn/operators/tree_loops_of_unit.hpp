// SPDX-License-Identifier: Apache-2.0
// The loops of tree_loops.hpp, for a file that is compiled for one kind of vector unit and includes this once.
//
// Nothing here has external linkage, and no inline function of another header is called: the linker could take this
// file's instance of it for the whole program, on a processor without the unit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nn/operators/tree_loops.hpp"

namespace sluice::nn::operators {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t tree_lane_bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t tree_lane_bytes = 32;
#else
constexpr std::size_t tree_lane_bytes = 16;
#endif
constexpr std::size_t rows_of_lane = tree_lane_bytes / sizeof(float), tree_groups = tree_lanes / rows_of_lane;
using feature_lane __attribute__((vector_size(tree_lane_bytes))) = float;
using loose_feature_lane __attribute__((vector_size(tree_lane_bytes), aligned(4))) = float;
using leaf_lane __attribute__((vector_size(tree_lane_bytes))) = std::int32_t;
using loose_leaf_lane __attribute__((vector_size(tree_lane_bytes), aligned(4))) = std::int32_t;

template <bool IsStrict>
[[gnu::always_inline]] inline bool passes_test(float x, float threshold) {
    return IsStrict ? x < threshold : x <= threshold;
}

// The number of the lowest bit of each: the exponent of that bit as a float. (The sign of the highest bit is lost.)
[[gnu::always_inline]] inline void lowest_bits(const leaf_lane& set, leaf_lane& to) {
    using unsigned_lane __attribute__((vector_size(tree_lane_bytes))) = std::uint32_t;
    const unsigned_lane bits = reinterpret_cast<unsigned_lane>(set);
    const unsigned_lane lowest = bits & (unsigned_lane{} - bits);
    const feature_lane as_float = __builtin_convertvector(reinterpret_cast<leaf_lane>(lowest), feature_lane);
    to = ((reinterpret_cast<leaf_lane>(as_float) >> 23) & 255) - 127;
}

template <std::size_t Words, bool IsStrict>
void sift_rows(const tree_sieve* nodes, std::size_t count, const float* rows, std::int32_t* to) noexcept {
    leaf_lane left[Words][tree_groups];
    for (auto& word : left)
        for (leaf_lane& each : word) each = leaf_lane{} - 1;
    for (std::size_t k = 0; k < count; ++k) {
        const tree_sieve& node = nodes[k];
        const float* const x = rows + std::size_t{node.feature} * tree_lanes;
        for (std::size_t g = 0; g < tree_groups; ++g) {
            const feature_lane values = *reinterpret_cast<const loose_feature_lane*>(x + g * rows_of_lane);
            const leaf_lane passed = IsStrict ? values < node.threshold : values <= node.threshold;
            for (std::size_t w = 0; w < Words; ++w) left[w][g] &= passed | static_cast<std::int32_t>(node.kept[w]);
        }
    }
    for (std::size_t g = 0; g < tree_groups; ++g) {
        leaf_lane made;
        lowest_bits(left[0][g], made);
        if constexpr (Words == 2) {
            leaf_lane other;
            lowest_bits(left[1][g], other);
            made = left[0][g] == 0 ? other + 32 : made;
        }
        *reinterpret_cast<loose_leaf_lane*>(to + g * rows_of_lane) = made;
    }
}

void sift_any(const tree_sieve* nodes, std::size_t count, std::size_t words, bool is_strict, const float* rows,
              std::int32_t* to) noexcept {
    if (words == 1)
        return is_strict ? sift_rows<1, true>(nodes, count, rows, to) : sift_rows<1, false>(nodes, count, rows, to);
    return is_strict ? sift_rows<2, true>(nodes, count, rows, to) : sift_rows<2, false>(nodes, count, rows, to);
}

// Continues, four steps at a time, until no walk has moved. `Value`: (feature, walk) to number.
template <bool IsStrict, std::size_t Count, typename Value>
[[gnu::always_inline]] inline void walk_on(const tree_step* steps, std::int32_t* at, const Value& value) {
    constexpr int together = 4;
    bool has_moved = true;
    while (has_moved) {
        std::int32_t moved = 0;
        for (int k = 0; k < together; ++k) {
            moved = 0;
            for (std::size_t r = 0; r < Count; ++r) {
                const tree_step& here = steps[at[r]];
                const std::int32_t next =
                    here.next[passes_test<IsStrict>(value(here.feature, r), here.threshold) ? 0 : 1];
                moved |= next ^ at[r];
                at[r] = next;
            }
        }
        has_moved = moved != 0;
    }
}

void walk_rows_of_block(const tree_step* steps, std::int32_t root, bool is_strict, const float* rows,
                        std::int32_t* to) noexcept {
    const auto value = [&](std::uint32_t feature, std::size_t r) {
        return rows[std::size_t{feature} * tree_lanes + r];
    };
    std::int32_t at[tree_lanes];
    for (std::int32_t& each : at) each = root;
    if (is_strict) {
        walk_on<true, tree_lanes>(steps, at, value);
    } else {
        walk_on<false, tree_lanes>(steps, at, value);
    }
    for (std::size_t r = 0; r < tree_lanes; ++r) to[r] = at[r];
}

void walk_trees_of_row(const tree_step* steps, const std::int32_t* roots, std::size_t count, bool is_strict,
                       const float* row, std::int32_t* to) noexcept {
    const auto value = [&](std::uint32_t feature, std::size_t) { return row[feature]; };
    std::int32_t at[tree_lanes];
    for (std::size_t r = 0; r < tree_lanes; ++r) at[r] = roots[r < count ? r : 0];
    if (is_strict) {
        walk_on<true, tree_lanes>(steps, at, value);
    } else {
        walk_on<false, tree_lanes>(steps, at, value);
    }
    for (std::size_t r = 0; r < count; ++r) to[r] = at[r];
}

constexpr tree_loops tree_loops_of_this_unit = {&sift_any, &walk_rows_of_block, &walk_trees_of_row};

}  // namespace
}  // namespace sluice::nn::operators
