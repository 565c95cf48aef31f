// SPDX-License-Identifier: Apache-2.0
// The chain that benchmarks launch: x = x * g over 2048 halves (8 blocks of 256), by hand and as operations.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "sluice/sluice.hpp"

namespace sluice::bench {

constexpr std::size_t elements = 2048;

static __global__ void scale_by_hand(__half* x, __half g, std::size_t size) {
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) x[i] = __hmul(x[i], g);
}

// The kernel by hand as a module for load_module.
inline constexpr std::string_view scale_ptx = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry scale(.param .u64 x, .param .b16 g, .param .u64 size)
{
    .reg .pred %p;
    .reg .b16 %h<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    cvt.u64.u32 %rd1, %r3;
    mad.wide.u32 %rd1, %r1, %r2, %rd1;
    ld.param.u64 %rd2, [size];
    setp.ge.u64 %p, %rd1, %rd2;
    @%p ret;
    ld.param.u64 %rd3, [x];
    cvta.to.global.u64 %rd3, %rd3;
    shl.b64 %rd4, %rd1, 1;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.b16 %h1, [%rd5];
    ld.param.b16 %h2, [g];
    mul.rn.f16 %h1, %h1, %h2;
    st.global.b16 [%rd5], %h1;
    ret;
}
)";

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
