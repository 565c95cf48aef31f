// SPDX-License-Identifier: Apache-2.0
// The loops of attention for AVX-512.
#include "kernels/attention/attention_loops.hpp"

namespace sluice::kernels {

const attention_loops attention_avx512 = {&attend};

}  // namespace sluice::kernels
