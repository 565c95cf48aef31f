// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit integers in a build without oneDNN: the operators' own loops do them.
#include "kernels/gemm/integer_gemm.hpp"

namespace sluice::kernels {

bool multiply_bytes_on_cpu(const byte_matrix&, const byte_matrix&, std::size_t, std::size_t, std::size_t,
                           std::int32_t*) {
    return false;
}

}  // namespace sluice::kernels
