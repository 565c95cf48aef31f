// SPDX-License-Identifier: Apache-2.0
// The functions of known_functions.cpp: one line each, in the file of its family.
#pragma once

#include <span>
#include <string_view>

#include "expanded_node.hpp"

namespace sluice::nn::detail {

struct known_function {
    std::string_view name;
    void (*expand)(expanded_node&);
    std::string_view domain = "com.microsoft";
};

std::span<const known_function> quantized_functions();
std::span<const known_function> layer_functions();

}  // namespace sluice::nn::detail
