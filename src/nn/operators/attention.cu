// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/table.hpp"

namespace sluice::nn::operators {

std::span<const definition> attention() {
    static const std::vector<definition> family = {};
    return family;
}

}  // namespace sluice::nn::operators
