// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/shape.hpp"

#include <algorithm>

#include "sluice/base/error.hpp"

namespace sluice {

void shape::refuse_rank(std::size_t rank) {
    throw error(errc::shape_mismatch, "a shape has at most 4 dimensions, not " + std::to_string(rank));
}

void shape::settle_size() {
    const auto end = extents_.begin() + static_cast<std::ptrdiff_t>(rank_);
    if (std::find(extents_.begin(), end, std::size_t{0}) == end) {
        throw error(errc::shape_mismatch, "the number of elements of this shape overflows");
    }
    size_ = 0;
}

std::string to_string(const shape& value) {
    std::string text = "[";
    for (std::size_t i = 0; i < value.rank(); ++i) {
        if (i != 0) text += ", ";
        text += std::to_string(value[i]);
    }
    return text + "]";
}

}  // namespace sluice
