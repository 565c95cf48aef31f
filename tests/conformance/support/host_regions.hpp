// SPDX-License-Identifier: Apache-2.0
// What copies of regions must do, as loops over host memory: the reference of their tests.
#pragma once

#include <vector>

#include "sluice/runtime/region.hpp"

namespace sluice::conformance {

// Calls f(index) for each element of a region, in order, with its index in a tensor of shape `whole`.
template <typename Function>
void for_each_element(const shape& whole, const position& at, const shape& extents, Function&& f) {
    for (std::size_t i = 0; i < extents.size(); ++i) {
        std::size_t rest = i, index = 0, stride = 1;
        for (std::size_t d = extents.rank(); d-- != 0;) {
            index += (at[d] + rest % extents[d]) * stride;
            rest /= extents[d];
            stride *= whole[d];
        }
        f(index);
    }
}

// The elements of the region.
template <typename T>
std::vector<T> taken(const std::vector<T>& all, const shape& whole, const region& where) {
    std::vector<T> some;
    for_each_element(whole, where.at, where.shape, [&](std::size_t index) { some.push_back(all[index]); });
    return some;
}

// `all`, with these elements in the region.
template <typename T>
std::vector<T> placed(std::vector<T> all, const shape& whole, const region& where, const std::vector<T>& some) {
    std::size_t next = 0;
    for_each_element(whole, where.at, where.shape, [&](std::size_t index) { all[index] = some[next++]; });
    return all;
}

}  // namespace sluice::conformance
