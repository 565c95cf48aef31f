#include "sluice/runtime/shape.hpp"

#include <algorithm>

#include "sluice/runtime/error.hpp"

namespace sluice {

shape::shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
    if (extents.size() > max_rank) {
        throw error(errc::shape_mismatch, "a shape has at most 4 dimensions, not " + std::to_string(extents.size()));
    }
    std::copy(extents.begin(), extents.end(), extents_.begin());
    // A zero anywhere makes the size zero; the others must not overflow on the way to it.
    if (std::find(extents.begin(), extents.end(), std::size_t{0}) != extents.end()) {
        size_ = 0;
        return;
    }
    for (const std::size_t extent : extents) {
        if (__builtin_mul_overflow(size_, extent, &size_)) {
            throw error(errc::shape_mismatch, "the number of elements of this shape overflows");
        }
    }
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
