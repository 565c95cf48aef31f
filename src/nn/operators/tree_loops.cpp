// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/tree_loops.hpp"

#include "nn/operators/loops_of_processor.hpp"

namespace sluice::nn::operators {

std::vector<const tree_loops*> known_tree_loops() { return SLUICE_KNOWN_LOOPS(tree_loops); }

const tree_loops& tree_loops_of_this_processor() {
    static const tree_loops& best = *known_tree_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
