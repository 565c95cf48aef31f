// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/vector_math.hpp"

namespace sluice::kernels {

std::vector<const vector_math*> known_vector_math() {
    std::vector<const vector_math*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f")) known.push_back(&vector_math_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&vector_math_avx2);
#endif
    known.push_back(&vector_math_baseline);
    return known;
}

const vector_math& vector_math_of_this_processor() {
    static const vector_math& best = *known_vector_math().front();
    return best;
}

}  // namespace sluice::kernels
