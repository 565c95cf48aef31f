// SPDX-License-Identifier: Apache-2.0
// Modules for tests, as PTX and as source.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice::conformance {

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// axpy(n, a, x, y): y[i] = a * x[i] + y[i]
// copy_views(from, to): to[i] = from[i] for as many elements as both have; each is an address and a size
// set_all(n, value, x): x[i] = value
// through_shared(offset, x): x[i] = i for 32 threads, through dynamic shared memory at the offset
inline constexpr std::string_view ptx_kernels = R"(
.version 7.0
.target sm_75
.address_size 64

.extern .shared .align 16 .b8 dynamic[];

.visible .entry axpy(.param .u32 size, .param .f32 factor, .param .u64 from, .param .u64 to)
{
    .reg .pred %p;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [size];
    setp.ge.u32 %p, %r4, %r5;
    @%p ret;
    ld.param.f32 %f1, [factor];
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    ld.global.f32 %f3, [%rd5];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%rd5], %f3;
    ret;
}

.visible .entry copy_views(.param .align 8 .b8 from[16], .param .align 8 .b8 to[16])
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<9>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %rd1, %r4;
    ld.param.u64 %rd2, [from+8];
    ld.param.u64 %rd3, [to+8];
    min.u64 %rd4, %rd2, %rd3;
    setp.ge.u64 %p, %rd1, %rd4;
    @%p ret;
    ld.param.u64 %rd5, [from];
    ld.param.u64 %rd6, [to];
    cvta.to.global.u64 %rd5, %rd5;
    cvta.to.global.u64 %rd6, %rd6;
    shl.b64 %rd7, %rd1, 2;
    add.s64 %rd5, %rd5, %rd7;
    add.s64 %rd6, %rd6, %rd7;
    ld.global.u32 %r5, [%rd5];
    st.global.u32 [%rd6], %r5;
    ret;
}

.visible .entry set_all(.param .u32 size, .param .u32 value, .param .u64 to)
{
    .reg .pred %p;
    .reg .b32 %r<7>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [size];
    setp.ge.u32 %p, %r4, %r5;
    @%p ret;
    ld.param.u32 %r6, [value];
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r6;
    ret;
}

.visible .entry through_shared(.param .u32 offset, .param .u64 to)
{
    .reg .b32 %r<7>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, dynamic;
    ld.param.u32 %r4, [offset];
    add.u32 %r5, %r3, %r4;
    add.u32 %r5, %r5, %r2;
    st.shared.u32 [%r5], %r1;
    bar.sync 0;
    ld.shared.u32 %r6, [%r5];
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r6;
    ret;
}
)";

// The same functions, but set_all(n, value, x): x[i] = value + 1
inline const std::string ptx_set_one_more = [] {
    std::string text(ptx_kernels);
    constexpr std::string_view load = "ld.param.u32 %r6, [value];";
    return text.insert(text.find(load) + load.size(), "\n    add.u32 %r6, %r6, 1;");
}();

inline constexpr std::string_view source_of_set_all = R"(
extern "C" __global__ void set_all(unsigned size, unsigned value, unsigned* to) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) to[i] = value;
}
)";

}  // namespace sluice::conformance
