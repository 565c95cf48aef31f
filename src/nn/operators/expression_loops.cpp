// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/expression_loops.hpp"

namespace sluice::nn::operators {

std::vector<const expression_loops*> known_expression_loops() {
    std::vector<const expression_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        known.push_back(&expression_loops_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&expression_loops_avx2);
#endif
    known.push_back(&expression_loops_baseline);
    return known;
}

const expression_loops& expression_loops_of_this_processor() {
    static const expression_loops& best = *known_expression_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
