// SPDX-License-Identifier: Apache-2.0
// tree_loops: which leaf of a tree rows of f32 features lead to, for 16 rows or trees at once, by a CPU's vector units.
//
// All tests of an ensemble are x <= threshold, or all are x < threshold. A test that is passed leads to the first
// child; NaN passes none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::nn::operators {

inline constexpr std::size_t tree_lanes = 16;

// A node of a tree of any size. A leaf leads to itself.
struct tree_step {
    float threshold;
    std::uint32_t feature;
    std::int32_t next[2];  // passed, failed
};

// A node of a tree of at most 64 leaves, which are the bits of a set, in the order in which they stand. The tests are
// carried out in any order: one that fails takes the leaves away which only a passed test leads to. The first leaf that
// is left is the one (as in QuickScorer, Lucchese et al., SIGIR 2015).
struct tree_sieve {
    float threshold;
    std::uint32_t feature;
    std::uint32_t kept[2];  // the leaves that a failed test leaves; the second word is that of leaves from 32 on
};

struct tree_loops {
    // `rows` are 16 rows, feature by feature: [features, 16]. Gives the number of the leaf for each.
    void (*sift)(const tree_sieve* nodes, std::size_t count, std::size_t words, bool is_strict, const float* rows,
                 std::int32_t* to) noexcept;
    // The step at which each of 16 rows ends.
    void (*walk_rows)(const tree_step* steps, std::int32_t root, bool is_strict, const float* rows,
                      std::int32_t* to) noexcept;
    // The step at which one row ends, in each of at most 16 trees.
    void (*walk_trees)(const tree_step* steps, const std::int32_t* roots, std::size_t count, bool is_strict,
                       const float* row, std::int32_t* to) noexcept;
};

extern const tree_loops tree_loops_baseline, tree_loops_avx2, tree_loops_avx512;

// Those that this processor can run, the best one first.
std::vector<const tree_loops*> known_tree_loops();
// The best one.
const tree_loops& tree_loops_of_this_processor();

}  // namespace sluice::nn::operators
