// SPDX-License-Identifier: Apache-2.0
// The ways in which a convolution of an image batch can be carried out on a GPU, and what the libraries are asked for.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/fused_convolutions.hpp"
#include "cuda/pixel_products.hpp"
#include "kernels/image_batch/image_batch.hpp"
#include "kernels/image_batch/image_batch_kernels.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::kernels {

// A GPU's libraries for image batches.
struct batch_libraries {
    explicit batch_libraries(cuda::device_context& of) : products(of), convolutions(of) {}

    cuda::pixel_products products;
    cuda::fused_convolutions convolutions;
};

// How a step is carried out. Without a tile, a product and a convolution: by the kernel that carries out any step.
struct convolution_way {
    std::shared_ptr<const cuda::pixel_products::plan> product = {};
    std::shared_ptr<const cuda::fused_convolutions::plan> convolution = {};
    std::optional<convolution_tile> tile = {};
    bool ends_apart = false;  // bias, addend and bounds by a kernel of ours
    bool is_gated = false;    // of a tile: the step before it, a multiplication, is carried out with it
    std::size_t joined = 1;   // steps from this one on that squeeze_command carries out, if there are more than one
    std::size_t blocks = 1;   // of these, for each image
    bool is_done = false;     // another step's kernel carries it out
    double microseconds = 0;  // as measured; 0 where nothing was

    std::string text() const;
    std::size_t workspace_bytes() const;
};

// Whether a step's bounds are those of relu.
bool has_relu(const image_step& step);

// What the libraries are asked for: a product where the step is one, and a convolution with its end; whether a kernel
// follows them, for an end that they do not have; whether the step has a gate (can_be_gated); and whether tiles fit
// where it reads and writes. Two steps with equal keys are carried out in the same way.
using step_key =
    std::tuple<std::optional<cuda::pixel_product>, std::optional<cuda::fused_convolution>, bool, bool, bool>;
step_key key_of(const image_step& step, std::size_t images, short_type type, bool has_gate);

// Whether a kernel can carry out both: a multiplication by one pixel of each image, and the convolution after it, which
// alone reads its result, and does not add it too.
bool can_be_gated(const image_step& multiplication, const image_step& convolution);

// The ways that may be tried. `is_late`: there is no more time for trials, so only the libraries' first proposals.
std::vector<convolution_way> ways_of(const step_key& key, const image_step& step, std::size_t images, short_type type,
                                     const batch_libraries& libraries, bool is_late);

}  // namespace sluice::kernels
