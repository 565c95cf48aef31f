// SPDX-License-Identifier: Apache-2.0
// Kernels that check their bounds and access an element that does not exist: on a GPU each ends the device.
#pragma once

#include <string>

#include "sluice/runtime/stream.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::faults {

enum class overrun { of_a_view, of_a_row, of_a_column, of_a_tile, of_shared_memory, of_a_part, of_a_matrix_of_tiles };
std::string to_string(overrun how);

// What the error says: the kernel, the access, and where it is in the source.
struct overrun_words {
    std::string kernel;
    std::string access;
    std::string place;
};
overrun_words words_of(overrun how);

// Launches the kernel, which writes x, a matrix of 8 rows and 4 columns.
void overrun_on(stream on, tensor<float>& x, overrun how);
// A kernel of many threads, each of which reads another element that does not exist.
void overrun_by_all_on(stream on, tensor<float>& x);
overrun_words words_of_all();

}  // namespace sluice::faults
