// SPDX-License-Identifier: Apache-2.0
// What the fuzzer, and the replay of files that it found, do with one file of trees.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

#include "sluice/base/file_error.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/nn/trees.hpp"

namespace sluice::nn::fuzz {

// A refusal (file_error) is correct; any other exception escapes, and a broken guarantee aborts.
inline void read_trees(std::span<const std::byte> file) {
    try {
        const model trees = nn::read_trees(file, "fuzz.txt");
        check(trees);
        if (!is_tree_file(file) || trees.body.nodes.size() != 1) std::abort();
        // The first two bounds of an interval of categories are of one bit or one digit of the file.
        const auto* const weights = trees.body.nodes[0].find<constant>("leaf_weights");
        const auto* const splits = trees.body.nodes[0].find<constant>("nodes_splits");
        if (weights->elements() > file.size() || splits->elements() > 64 * file.size()) std::abort();
    } catch (const file_error&) {
    }
}

}  // namespace sluice::nn::fuzz
