// SPDX-License-Identifier: Apache-2.0
// tensor_view: a tensor of a request or an answer, in memory of another owner; and the protocol's names of types.
//
// All functions here take time at most linear in the number of dimensions.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/io/dtype.hpp"

namespace sluice::serve {

// The lengths of a tensor, without memory of its own.
class tensor_shape {
public:
    static constexpr std::size_t most_dimensions = 16;  // that a shape may have

    tensor_shape() = default;
    // Needs at most most_dimensions lengths.
    explicit tensor_shape(std::span<const std::size_t> lengths) noexcept {
        for (const std::size_t each : lengths) push_back(each);
    }

    // Adds a length; needs rank() < most_dimensions.
    void push_back(std::size_t length) noexcept { lengths_[rank_++] = length; }
    std::size_t rank() const noexcept { return rank_; }  // the number of lengths
    // The lengths; valid as long as this object, and until the next push_back.
    std::span<const std::size_t> lengths() const noexcept { return {lengths_.data(), rank_}; }
    // The length of this dimension, below rank().
    std::size_t& operator[](std::size_t at) noexcept { return lengths_[at]; }
    std::size_t operator[](std::size_t at) const noexcept { return lengths_[at]; }

private:
    std::array<std::size_t, most_dimensions> lengths_{};
    std::size_t rank_ = 0;
};

// "[2, 3]"
std::string to_string(const tensor_shape& shape);

// Row-major, little-endian; the bytes need no alignment.
struct tensor_view {
    io::dtype type = io::dtype::f32;   // of the elements
    tensor_shape shape;                // of the tensor
    std::span<const std::byte> bytes;  // the elements; not owned
};

// The Open Inference Protocol's name of a type: "FP32", "BOOL".
std::string_view datatype_of(io::dtype type) noexcept;
// The reverse. Empty for a name that is unknown, and for BYTES: texts are codes in a model.
std::optional<io::dtype> dtype_of_datatype(std::string_view name) noexcept;
// "FP32, FP64, ...": for messages.
std::string known_datatypes();

}  // namespace sluice::serve
