// SPDX-License-Identifier: Apache-2.0
// The kernels of image batches: each step, and what is left of a convolution where a library does only a part.
#pragma once

#include <cstddef>

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

}  // namespace sluice::kernels
