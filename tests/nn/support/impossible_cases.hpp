// SPDX-License-Identifier: Apache-2.0
// Nodes with one number that cannot be: one or more for each input of the table "Numbers that are checked" of
// docs/operators.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/single_nodes.hpp"

namespace sluice::nn::test_support {

struct impossible_value {
    single_node what;
    std::size_t input;   // which has the number
    std::string number;  // how the message has it
};

std::vector<impossible_value> impossible_cases();

inline any_tensor floats(const std::vector<float>& values, std::vector<std::size_t> shape) {
    return {values, std::move(shape)};
}
inline any_tensor wide(const std::vector<std::int64_t>& values, std::vector<std::size_t> shape) {
    return {values, std::move(shape)};
}

}  // namespace sluice::nn::test_support
