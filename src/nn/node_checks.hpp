// SPDX-License-Identifier: Apache-2.0
// What is checked of one node by itself.
#pragma once

#include <cstddef>
#include <filesystem>

#include "nn/operators/table.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// Throws file_error for a number of inputs or outputs that the operator does not have, and for an attribute.
void check_node(const std::filesystem::path& path, const node& which, std::size_t position,
                const operators::definition& what);

}  // namespace sluice::nn::detail
