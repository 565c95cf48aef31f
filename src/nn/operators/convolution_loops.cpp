// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/convolution_loops.hpp"

#include "nn/operators/loops_of_processor.hpp"

namespace sluice::nn::operators {

std::vector<const convolution_loops*> known_convolution_loops() { return SLUICE_KNOWN_LOOPS(convolution_loops); }

const convolution_loops& convolution_loops_of_this_processor() {
    static const convolution_loops& best = *known_convolution_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
