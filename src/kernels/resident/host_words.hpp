// SPDX-License-Identifier: Apache-2.0
// The host's side of the words by which it and a kernel that stays exchange requests and answers
// (sluice/kernels/detail/resident_words.hpp). The kernel reads and writes words while they are written and read here.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::kernels {

inline void put_word(std::uint64_t* word, std::uint32_t data, std::uint32_t flag) noexcept {
    std::atomic_ref(*word).store(std::uint64_t{flag} << 32 | data, std::memory_order_relaxed);
}
inline std::uint64_t word_at(const std::uint64_t* word) noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(*word)).load(std::memory_order_relaxed);
}
// Words of another flag are not read.
inline bool has_flag(std::uint64_t word, std::uint32_t flag) noexcept { return word >> 32 == flag; }

}  // namespace sluice::kernels
