// SPDX-License-Identifier: Apache-2.0
// The chain that benchmarks launch: x = x * g over 2048 halves (8 blocks of 256), by hand and as operations.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "sluice/sluice.hpp"

namespace sluice::bench {

constexpr std::size_t elements = 2048;

static __global__ void scale_by_hand(__half* x, __half g, std::size_t size) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] = __hmul(x[i], g);
}

struct scale {
    SLUICE_KERNEL void operator()(index_1d at, __half g, disjoint_view<__half> x) const {
        if (__half* const element = x.at(at)) *element = __hmul(*element, g);
    }
};

inline any_operation<tensor<__half>> chain(tensor<__half> x, std::size_t length) {
    any_operation<tensor<__half>> all = value(std::move(x));
    for (std::size_t i = 0; i < length; ++i) {
        all = std::move(all).and_then(
            [](tensor<__half> y) { return launch(scale{}, each_of(y), __float2half(1.0f), std::move(y)); });
    }
    return all;
}

}  // namespace sluice::bench
