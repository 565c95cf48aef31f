// SPDX-License-Identifier: Apache-2.0
// convolution_loops: sums of products for neighbouring outputs of a convolution, by a CPU's vector units.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::nn::operators {

struct convolution_loops {
    // Filters that `of_several` takes together.
    std::size_t together;
    // y[f * apart + o] = bias[f] + the sum over t of x[places[t] + o] * weights[t * together + f], for each of the
    // filters and o < count.
    void (*of_several)(const float* x, const std::size_t* places, const float* weights, std::size_t taps,
                       const float* bias, float* y, std::size_t apart, std::size_t count) noexcept;
    // The same for one filter, whose weights are next to each other.
    void (*of_one)(const float* x, const std::size_t* places, const float* weights, std::size_t taps, float bias,
                   float* y, std::size_t count) noexcept;
};

extern const convolution_loops convolution_loops_baseline, convolution_loops_avx2, convolution_loops_avx512;

// Those that this processor can run, the best one first.
std::vector<const convolution_loops*> known_convolution_loops();
// The best one.
const convolution_loops& convolution_loops_of_this_processor();

}  // namespace sluice::nn::operators
