// SPDX-License-Identifier: Apache-2.0
// pooling_loops: poolings of f32 over rows of windows, by a CPU's vector units.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::nn::operators {

// Windows over images of three dimensions, as windows.hpp has them, and which of them are to be computed. Plain
// numbers: the loops call no inline function of another header.
struct pooled_windows {
    const float* x;
    float* y;
    std::size_t input[3], window[3], output[3], stride[3], dilation[3], before[3], after[3];
    // A row is the windows of one place in the first dimensions: rows [first_row, last_row), of each the windows
    // [begin, end), which read at most `most_columns` elements of the padded last dimension.
    std::size_t first_row, last_row, begin, end;
    bool counts_padding;  // in means

    static constexpr std::size_t most_columns = 2048, most_windows = 256;
};

struct pooling_loops {
    // Of each window the largest number; NaN where it has one, -infinity where it has no element.
    void (*largest)(const pooled_windows& of) noexcept;
    // The mean of its numbers; 0 where it has no element.
    void (*means)(const pooled_windows& of) noexcept;
};

extern const pooling_loops pooling_loops_baseline, pooling_loops_avx2, pooling_loops_avx512;

// Those that this processor can run, the best one first.
std::vector<const pooling_loops*> known_pooling_loops();
// The best one.
const pooling_loops& pooling_loops_of_this_processor();

}  // namespace sluice::nn::operators
