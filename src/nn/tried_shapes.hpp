// SPDX-License-Identifier: Apache-2.0
// Shapes with named dimensions, inferred by trying: the operators know numbers only. Each name has two lengths, and
// each value of a network a tensor for each of the two. A dimension that is the same in both is a number; one that
// follows a name in both is that name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/operators/table.hpp"
#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

inline constexpr std::size_t tries = 2;

// A value: types and shapes, and the elements of what is small and known. Not there: nothing is known.
using tried_value = std::array<any_tensor, tries>;
inline bool is_known(const tried_value& value) { return static_cast<bool>(value[0]); }

class tried_lengths {
public:
    // The value of an input.
    tried_value value_of(io::dtype type, const std::vector<dimension>& shape);
    // What is known of the shape; none when not even the number of dimensions is.
    std::optional<std::vector<dimension>> shape_of(const tried_value& value) const;
    // "rows = 480, columns = 960", or empty.
    std::string text(std::size_t of_try) const;

private:
    std::vector<std::string> names_;  // an empty one for each length without a name
};

struct node_to_try {
    const std::filesystem::path& path;  // of the model, for messages
    const node& which;
    std::size_t position;
    std::int64_t opset;
    const operators::definition& what;
};

// The outputs of a node for one of the tries. None when they depend on what is known at run time. Throws what the
// operator throws for a node that is wrong.
std::optional<std::vector<any_tensor>> try_node(const node_to_try& which, const std::vector<any_tensor>& inputs);

}  // namespace sluice::nn::detail
