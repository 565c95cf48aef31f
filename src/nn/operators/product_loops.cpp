// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/product_loops.hpp"

#include "nn/operators/loops_of_processor.hpp"

namespace sluice::nn::operators {

std::vector<const product_loops*> known_product_loops() { return SLUICE_KNOWN_LOOPS(product_loops); }

const product_loops& product_loops_of_this_processor() {
    static const product_loops& best = *known_product_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
