// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/row_math.hpp"

namespace sluice::kernels {

std::vector<const row_math*> known_row_math() {
    std::vector<const row_math*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) known.push_back(&row_math_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&row_math_avx2);
#endif
    known.push_back(&row_math_baseline);
    return known;
}

const row_math& row_math_of_this_processor() {
    static const row_math& best = *known_row_math().front();
    return best;
}

}  // namespace sluice::kernels
