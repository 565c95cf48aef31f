// SPDX-License-Identifier: Apache-2.0
// product_loops: products of small f32 matrices, by a CPU's vector units.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::nn::operators {

// y[r, c] = sum over k of a[r, k] * b[k, c], for some columns next to each other in b: at most a panel's width. Each
// element is one sum, of k in its order, whatever is computed with it. Strides are in elements.
struct product_panel {
    const float* a;
    const float* b;  // of each k the panel's width can be read
    float* y;
    std::size_t rows, depth, columns;
    std::size_t a_row, a_inner, b_inner, y_row, y_column;
    bool adds;  // to what y has; else y is not read
};

struct product_loops {
    std::size_t width;  // of a panel
    void (*multiply)(const product_panel& of) noexcept;

    static constexpr std::size_t most_width = 32;
};

extern const product_loops product_loops_baseline, product_loops_avx2, product_loops_avx512;

// Those that this processor can run, the best one first.
std::vector<const product_loops*> known_product_loops();
// The best one.
const product_loops& product_loops_of_this_processor();

}  // namespace sluice::nn::operators
