// SPDX-License-Identifier: Apache-2.0
// A recipe for images of certain sizes: the steps of a program, and where each value is.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "nn/images/recipe.hpp"

namespace sluice::nn::detail {

struct image_layout {
    std::vector<kernels::image_step> steps;
    std::size_t images = 0;
    std::size_t scratch_elements = 0;  // of one image, or of all
    std::vector<any_tensor> outputs;   // types and shapes
};

// Nothing where the recipe does not fit the shapes: a value has no elements, is no image of f32 with two dimensions, or
// is broadcast; or borders would need much more memory than the images. Outside tensors are numbered as the inputs,
// then the outputs.
std::optional<image_layout> layout_of(const prepared_graph& in, const image_recipe& recipe,
                                      const std::filesystem::path& path, std::span<const any_tensor> inputs,
                                      image_style style = image_style::one_by_one);

}  // namespace sluice::nn::detail
