// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/pooling_loops.hpp"

#include "nn/operators/loops_of_processor.hpp"

namespace sluice::nn::operators {

std::vector<const pooling_loops*> known_pooling_loops() { return SLUICE_KNOWN_LOOPS(pooling_loops); }

const pooling_loops& pooling_loops_of_this_processor() {
    static const pooling_loops& best = *known_pooling_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
