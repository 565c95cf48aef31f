// SPDX-License-Identifier: Apache-2.0
// in_word: a small value in a kernel that fills eight bytes. A kernel made of words has no padding, whose bytes could
// differ between two recordings of a graph: it would then be recorded again at each launch.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

// A bool, an enumerator, an integer or a number of floating point.
template <typename T>
class in_word {
public:
    SLUICE_KERNEL constexpr in_word(T value) : bits_(static_cast<bits>(value)) {}
    in_word() = default;
    SLUICE_KERNEL constexpr operator T() const { return static_cast<T>(bits_); }

private:
    using bits = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    bits bits_{};
};

}  // namespace sluice::nn::operators
