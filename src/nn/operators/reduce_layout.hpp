// SPDX-License-Identifier: Apache-2.0
// reduce_layout: where the elements of a reduction are.
#pragma once

#include <cstddef>
#include <vector>

#include "nn/operators/node_call.hpp"
#include "nn/operators/reduce.hpp"
#include "sluice/base/kernel.hpp"

namespace sluice::nn::operators {

// The dimensions in which a reduction moves, those of the results and those that are reduced. Neighbours of one kind
// are one dimension.
struct reduce_layout {
    static constexpr std::size_t max_rank = 6;

    struct dimensions {
        std::size_t rank = 0;
        std::size_t length[max_rank] = {};
        std::size_t stride[max_rank] = {};

        SLUICE_KERNEL std::size_t offset(std::size_t i) const {
            if (rank == 1) return i * stride[0];
            std::size_t at = 0;
            for (std::size_t d = rank; d-- > 0;) {
                at += i % length[d] * stride[d];
                i /= length[d];
            }
            return at;
        }
    };
    dimensions kept, reduced;
    std::size_t results = 1, count = 1;  // the products of both lengths
};

reduce_layout layout_of(const node_call& in, const lengths& shape, const std::vector<std::size_t>& axes);

// Reduces f32 on a CPU by vector loops (kernels/reduction/row_math.hpp). False: there is none for it.
bool reduce_on_cpu(const node_call& in, reduction what, const any_tensor& x, const reduce_layout& layout,
                   const any_tensor& to, const reduce_options& options);

}  // namespace sluice::nn::operators
