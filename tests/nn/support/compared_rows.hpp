// SPDX-License-Identifier: Apache-2.0
// Rows of tensors, joined and alone, and how far they are from each other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "sluice/nn/any_tensor.hpp"

namespace sluice::nn::testing {

inline std::vector<double> numbers_of(const any_tensor& of) {
    std::vector<double> made(of.elements());
    operators::with_type(of.type(), [&]<typename T>() {
        for (std::size_t i = 0; i < made.size(); ++i) {
            T one;
            std::memcpy(&one, of.bytes().data() + i * sizeof(T), sizeof(T));
            made[i] = static_cast<double>(static_cast<operators::computed<T>>(one));
        }
    });
    return made;
}

// The elements of a row along an axis that has as many elements for each of the `rows` rows, which lie there in that
// many runs of all rows.
inline std::vector<double> row_of(const any_tensor& all, std::size_t axis, std::size_t row, std::size_t rows,
                                  std::size_t runs = 1) {
    const std::vector<double> numbers = numbers_of(all);
    std::size_t before = 1, after = 1;
    for (std::size_t d = 0; d < all.shape().size(); ++d) (d < axis ? before : after) *= d == axis ? 1 : all.shape()[d];
    const std::size_t length = all.shape()[axis], each = length / rows / runs;
    std::vector<double> made;
    for (std::size_t i = 0; i < before; ++i)
        for (std::size_t run = 0; run < runs; ++run)
            for (std::size_t e = (run * rows + row) * each; e < (run * rows + row + 1) * each; ++e)
                for (std::size_t k = 0; k < after; ++k) made.push_back(numbers[(i * length + e) * after + k]);
    return made;
}

// Empty where the numbers are near each other, as a share of the largest one.
inline std::string difference(const std::vector<double>& joined, const std::vector<double>& alone, double allowed) {
    if (joined.size() != alone.size()) return "has another number of elements";
    double magnitude = 0;
    for (const double each : alone)
        if (std::isfinite(each)) magnitude = std::max(magnitude, std::abs(each));
    for (std::size_t i = 0; i < joined.size(); ++i) {
        if (std::isnan(joined[i]) && std::isnan(alone[i])) continue;
        if (joined[i] != alone[i] && !(std::abs(joined[i] - alone[i]) <= allowed * magnitude)) {
            std::ostringstream text;
            text << "is " << joined[i] << " and alone " << alone[i] << ", of a row up to " << magnitude;
            return text.str();
        }
    }
    return {};
}

}  // namespace sluice::nn::testing
