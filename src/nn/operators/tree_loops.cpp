// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/tree_loops.hpp"

namespace sluice::nn::operators {

std::vector<const tree_loops*> known_tree_loops() {
    std::vector<const tree_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        known.push_back(&tree_loops_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&tree_loops_avx2);
#endif
    known.push_back(&tree_loops_baseline);
    return known;
}

const tree_loops& tree_loops_of_this_processor() {
    static const tree_loops& best = *known_tree_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
