// SPDX-License-Identifier: Apache-2.0
// Products of matrices of 8-bit integers on a CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

// Rows of bytes, dense. `zero`, a number of their type, is subtracted from each.
struct byte_matrix {
    const void* data;
    bool is_signed;
    std::int32_t zero;
};

// out [rows, columns] = a [rows, inner] times b [inner, columns]; all sizes are at least 1. Sums are exact in 32 bits,
// and wrap. On the calling thread alone. False, and nothing is done, where this build or this processor has no fast way
// that is exact (without VNNI, vector units saturate sums of two products).
bool multiply_bytes_on_cpu(const byte_matrix& a, const byte_matrix& b, std::size_t rows, std::size_t inner,
                           std::size_t columns, std::int32_t* out);

}  // namespace sluice::kernels
