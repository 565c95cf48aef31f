// SPDX-License-Identifier: Apache-2.0
// Loops that are compiled for several kinds of vector units: those that this processor can run. SLUICE_X86_VARIANTS is
// defined for a file whose loops are compiled for AVX2 and AVX-512 too; for others this gives the baseline.
#pragma once

#include <vector>

namespace sluice::nn::operators {

#if defined(SLUICE_X86_VARIANTS)

// The best ones first.
template <typename Loops>
std::vector<const Loops*> loops_of_processor(const Loops& avx512, const Loops& avx2, const Loops& baseline) {
    std::vector<const Loops*> known;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        known.push_back(&avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back(&avx2);
    known.push_back(&baseline);
    return known;
}
#define SLUICE_KNOWN_LOOPS(name) \
    ::sluice::nn::operators::loops_of_processor(name##_avx512, name##_avx2, name##_baseline)

#else

// Elsewhere the others are not compiled.
#define SLUICE_KNOWN_LOOPS(name) {&name##_baseline}

#endif

}  // namespace sluice::nn::operators
