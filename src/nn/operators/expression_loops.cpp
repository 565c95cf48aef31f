// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/expression_loops.hpp"

#include "nn/operators/loops_of_processor.hpp"

namespace sluice::nn::operators {

std::vector<const expression_loops*> known_expression_loops() { return SLUICE_KNOWN_LOOPS(expression_loops); }

const expression_loops& expression_loops_of_this_processor() {
    static const expression_loops& best = *known_expression_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
