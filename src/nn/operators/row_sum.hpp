// SPDX-License-Identifier: Apache-2.0
// row_sum: a sum that carries its rounding errors along, since one thread may add up more elements than a float can
// count. (Knuth, TAOCP 2, 4.2.2, theorem B.)
#pragma once

#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

template <typename Number>
struct row_sum {
    Number sum = 0, lost = 0;

    SLUICE_KERNEL void add(Number x) {
        const Number next = sum + x, of_x = next - sum;
        lost += (sum - (next - of_x)) + (x - of_x);
        sum = next;
    }
    SLUICE_KERNEL Number value() const { return sum - sum == 0 ? sum + lost : sum; }  // infinity and NaN as they are
};

}  // namespace sluice::nn::operators
