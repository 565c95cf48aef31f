// SPDX-License-Identifier: Apache-2.0
// What the operators of a stretch say of its values and windows, for inputs of certain sizes. Nothing is computed.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "nn/images/recipe.hpp"

namespace sluice::nn::detail {

// The shapes of all values for these inputs, without their elements. Throws what the operators say of wrong ones.
std::vector<any_tensor> image_shapes(const prepared_graph& in, const std::filesystem::path& path,
                                     std::span<const any_tensor> inputs);

// The window of a convolution or a pooling, over an image of this size. `shapes`: of all values, as image_shapes gives
// them.
kernels::image_window image_window_of(const step& of, const kernels::image_size& from,
                                      const std::filesystem::path& path, std::vector<any_tensor>& shapes);

}  // namespace sluice::nn::detail
