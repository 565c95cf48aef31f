// SPDX-License-Identifier: Apache-2.0
// The tiles of rounded_tiles.hpp as AMX has them.
//
// A thread configures its tiles for each call and releases them at its end, some 200 cycles in all (Intel's tables say
// 204 for ldtilecfg): so no thread of the user keeps tile data, which the kernel would have to save at each switch.
// Tiles and their configuration are lost across calls by the calling convention, so a caller that uses AMX itself
// expects this.
//
// The compilers' intrinsics take literal numbers of tiles only, and g++ 12 may move writes to memory past its
// tileloadd: hence the instructions themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/rounded_layers/rounded_layers.hpp"

namespace sluice::kernels {
namespace {

struct alignas(64) tile_configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(tile_configuration) == 64);

template <rounded_type Type>
class amx_tiles {
public:
    static constexpr rounded_type type = Type;

    amx_tiles(std::size_t height, bool is_single) {
        tile_configuration made;
        for (int i = 0; i < 8; ++i) {
            const bool has_weights = i > 5 || (i == 5 && is_single);
            made.row_bytes[i] = 64;
            made.rows[i] = has_weights ? 16 : static_cast<std::uint8_t>(height);
        }
        asm volatile("ldtilecfg %0" : : "m"(made) : "memory");
    }
    amx_tiles(const amx_tiles&) = delete;  // the thread has them once
    ~amx_tiles() { asm volatile("tilerelease" : : : "memory"); }

    template <int To>
    [[gnu::always_inline]] void load(const void* from, std::size_t stride) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(To) : "memory");
    }
    template <int From>
    [[gnu::always_inline]] void store(void* to, std::size_t stride) {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(From) : "memory");
    }
    template <int To>
    [[gnu::always_inline]] void clear() {
        asm volatile("tilezero %%tmm%c0" : : "i"(To) : "memory");
    }
    template <int To, int Inputs, int Weights>
    [[gnu::always_inline]] void multiply_add() {
        if constexpr (Type == rounded_type::int8) {
            asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(To), "i"(Inputs), "i"(Weights) : "memory");
        } else {
            asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(To), "i"(Inputs), "i"(Weights) : "memory");
        }
    }
    // Of bf16: see rounded_tiles.hpp.
    [[gnu::always_inline]] static void round(const float* from, std::byte* to) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
    }
};

}  // namespace
}  // namespace sluice::kernels
