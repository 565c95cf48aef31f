// SPDX-License-Identifier: Apache-2.0
// How a kernel that stays reads and writes words of pinned host memory, which the host changes meanwhile. A word of 64
// bits is 32 bits of data and, above them, a flag that says which request they are of: both arrive together.
//
// For kernels: nothing is declared where a host compiler reads this.
#pragma once

#if defined(__CUDACC__)

#include <cstdint>

#include "sluice/base/kernel.hpp"

namespace sluice::detail {

inline namespace SLUICE_LAUNCH_ABI {

__device__ inline std::uint64_t read_host_word(const std::uint64_t* word) {
    std::uint64_t made;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(made) : "l"(word) : "memory");
    return made;
}
__device__ inline std::uint32_t read_host_word(const std::uint32_t* word) {
    std::uint32_t made;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(made) : "l"(word) : "memory");
    return made;
}
__device__ inline void write_host_word(std::uint64_t* word, std::uint32_t data, std::uint32_t flag) {
    const std::uint64_t all = std::uint64_t{flag} << 32 | data;
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(all) : "memory");
}
__device__ inline void write_host_word(std::uint32_t* word, std::uint32_t data) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(data) : "memory");
}

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail

#endif
