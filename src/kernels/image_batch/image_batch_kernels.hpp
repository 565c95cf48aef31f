// SPDX-License-Identifier: Apache-2.0
// The kernels of image batches: each step, and what is left of a convolution where a library does only a part.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/image_batch/image_batch.hpp"

namespace sluice::kernels {

struct batch_closure {
    alignas(16) std::byte bytes[512];
};

// Of any step. A convolution by this is slow: for what libraries refuse.
launch_command batch_command(const batch_call& call, const image_step& step, batch_closure& closure);
// What follows the sums that a convolution has left in its output: bias, addend and bounds.
launch_command batch_end_command(const batch_call& call, const image_step& step, batch_closure& closure);
// The bounds of the elements that a convolution has written.
launch_command batch_bounds_command(const batch_call& call, const image_step& step, batch_closure& closure);

// Convolutions on tensor cores whose blocks make this many pixels of this many filters (image_batch_convolution.cu).
// None for steps that they do not fit. On a GPU only. `gate`: a multiplication of the convolution's input by one pixel
// of each image, which is carried out with it and writes nothing. batch_convolution_command throws
// errc::invalid_argument for a tile that is not one of the step's.
struct convolution_tile {
    std::size_t pixels, filters;
    bool is_shared;  // the warps of a block share the products of a tile; else each has a part of the tile's pixels

    std::string text() const;
};
std::vector<convolution_tile> convolution_tiles_for(const image_step& step);
launch_command batch_convolution_command(const batch_call& call, const image_step& step, const convolution_tile& tile,
                                         batch_closure& closure, const image_step* gate = nullptr);

// How many of these steps, from the first one on, one kernel carries out: the mean of each image and convolutions of
// the pixel that it gives. 0 where it cannot. On a GPU only.
std::size_t squeezed_steps(const image_step* steps, std::size_t count);
// `blocks`, for each image: 1, or blocks_of_cluster, which needs a GPU with clusters.
inline constexpr unsigned blocks_of_cluster = 8;
launch_command squeeze_command(const batch_call& call, const image_step* steps, std::size_t count, std::size_t blocks,
                               batch_closure& closure);

}  // namespace sluice::kernels
