// SPDX-License-Identifier: Apache-2.0
// pooling_loops: what poolings of f32 do with lines of an image, by a CPU's vector units.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::nn::operators {

struct pooling_loops {
    // to[i] becomes the larger one of to[i] and x[i * step]; NaN where one is NaN.
    void (*take_larger)(const float* x, std::size_t step, float* to, std::size_t count) noexcept;
    // to[i] += x[i], and to[i] += x[i * step].
    void (*add_line)(const float* x, double* to, std::size_t count) noexcept;
    void (*add_apart)(const double* x, std::size_t step, double* to, std::size_t count) noexcept;
};

extern const pooling_loops pooling_loops_baseline, pooling_loops_avx2, pooling_loops_avx512;

// Those that this processor can run, the best one first.
std::vector<const pooling_loops*> known_pooling_loops();
// The best one.
const pooling_loops& pooling_loops_of_this_processor();

}  // namespace sluice::nn::operators
