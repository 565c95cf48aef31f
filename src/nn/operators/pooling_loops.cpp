// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/pooling_loops.hpp"

namespace sluice::nn::operators {

std::vector<const pooling_loops*> known_pooling_loops() {
    std::vector<const pooling_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        known.push_back(&pooling_loops_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&pooling_loops_avx2);
#endif
    known.push_back(&pooling_loops_baseline);
    return known;
}

const pooling_loops& pooling_loops_of_this_processor() {
    static const pooling_loops& best = *known_pooling_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
