// SPDX-License-Identifier: Apache-2.0
// The kernels of each kind of vector unit; only those that the processor has may run.
#pragma once

#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {

struct rounded_table {
    rounded_kernel bf16, f16, int8;

    const rounded_kernel& operator[](rounded_type type) const {
        return type == rounded_type::bf16 ? bf16 : type == rounded_type::f16 ? f16 : int8;
    }
};

// Factors are widened.
rounded_table rounded_baseline();
rounded_table rounded_avx2();
rounded_table rounded_avx512();
// With products of their own.
rounded_kernel rounded_avx512_bf16();
rounded_kernel rounded_avx512_vnni();
rounded_kernel rounded_amx_bf16();
rounded_kernel rounded_amx_int8();

}  // namespace sluice::kernels
