// SPDX-License-Identifier: Apache-2.0
// Which floats of the scratch memory a step of an image program reads and writes. Whatever needs to know that asks
// here: what is copied for several images, and the check that a program stays within its memory.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/channels_last/image_program.hpp"

namespace sluice::kernels {

// A value as one step reads or writes it, with its border: pixels at `at`, at distances that `at` says.
struct image_extent {
    image_place at;
    image_size size;
    image_border border;

    std::size_t begin() const noexcept { return at.first - border.top * at.row - border.left * at.pixel; }
    // After the last float.
    std::size_t end() const noexcept {
        return at.first + (size.height - 1 + border.bottom) * at.row + (size.width - 1 + border.right) * at.pixel +
               size.channels;
    }
    // Whether this, written, is all that the other one reads.
    bool is_all_of(const image_extent& read) const noexcept;
};

// Of a step without bands. Outside tensors are not in the scratch memory: `enter` reads nothing, `leave` writes
// nothing.
std::vector<image_extent> extents_read_by(const image_step& step);
std::vector<image_extent> extents_written_by(const image_step& step);

// Whether all steps read and write within the first `floats` of the scratch memory, and the tail's copy is within it
// too. (Loops may read image_slack floats more, and use none of them.)
bool stays_within(const std::vector<image_step>& steps, const image_tail& tail, std::size_t floats);

}  // namespace sluice::kernels
