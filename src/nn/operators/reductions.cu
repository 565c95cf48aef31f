// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {

std::span<const definition> reductions() {
    static const std::vector<definition> all = {};
    return all;
}

}  // namespace sluice::nn::operators
