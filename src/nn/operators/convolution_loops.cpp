// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/convolution_loops.hpp"

namespace sluice::nn::operators {

std::vector<const convolution_loops*> known_convolution_loops() {
    std::vector<const convolution_loops*> known;
#if defined(SLUICE_X86_VARIANTS)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        known.push_back(&convolution_loops_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&convolution_loops_avx2);
#endif
    known.push_back(&convolution_loops_baseline);
    return known;
}

const convolution_loops& convolution_loops_of_this_processor() {
    static const convolution_loops& best = *known_convolution_loops().front();
    return best;
}

}  // namespace sluice::nn::operators
