// SPDX-License-Identifier: Apache-2.0
// wgmma, Hopper's asynchronous product of a warpgroup (four warps), with the left operand in registers or in shared
// memory and the right one in shared memory: d += a * b, where d is [64, N] float, a [64, 16], b [N][16] with k
// contiguous; of f8_e4m3 a is [64, 32] and b [N][32], as many bytes. Only for sm_90a.
//
// Registers are those of mma.m16n8k16 (of f8_e4m3: m16n8k32), warp by warp: warp w of the group has rows 16w to 16w +
// 15, and d is one accumulator of 16 x 8 after the other.
//
// d and a must not be touched between wgmma_begin() and the wgmma_wait that follows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sluice/base/f8.hpp"
#include "sluice/base/half.hpp"

namespace sluice::kernels {

// The right operand: blocks of 8 rows of n by 16 bytes of k, 128 bytes each and contiguous, the two halves of k side by
// side (128 bytes apart), then the next 8 rows of n (256 bytes apart). No swizzle: none is needed in that order.
__device__ inline std::uint64_t wgmma_operand(const void* slab) {
    const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(slab));
    return (address & 0x3ffff) >> 4 | std::uint64_t{128 >> 4} << 16 | std::uint64_t{256 >> 4} << 32;
}

// An operand as a tensor map with the 128-byte swizzle brings it, at a multiple of 1 KiB: rows of 128 bytes, eight of
// them 1 KiB, one after the other. Rows are those of m or n, with k along them; then `next_columns` is not used. Or,
// for a transposed operand, rows are those of k with 64 elements of n along them, and the next 64 are `next_columns`
// bytes on.
__device__ inline std::uint64_t swizzled_operand(const void* tile, unsigned next_columns = 16) {
    const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(tile));
    return (address & 0x3ffff) >> 4 | std::uint64_t{next_columns >> 4} << 16 | std::uint64_t{1024 >> 4} << 32 |
           std::uint64_t{1} << 62;
}

// Before the first product of a batch: earlier writes of d and a by this thread come first.
__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
// Waits until at most `Pending` of the committed batches are in flight.
template <int Pending>
__device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}
// Keeps the compiler from reading an accumulator before a wait that is above this.
template <int Blocks>
__device__ inline void wgmma_hold(float (&d)[Blocks][4]) {
#pragma unroll
    for (auto& block : d) {
#pragma unroll
        for (float& each : block) asm volatile("" : "+f"(each)::"memory");
    }
}

// One instruction for each width and type. The accumulators of `d` come first, then a, b and whether it adds.
// clang-format off
#define SLUICE_BLOCK(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define SLUICE_BLOCKS_4(i) SLUICE_BLOCK(i), SLUICE_BLOCK(i + 1), SLUICE_BLOCK(i + 2), SLUICE_BLOCK(i + 3)
#define SLUICE_BLOCKS_8(i) SLUICE_BLOCKS_4(i), SLUICE_BLOCKS_4(i + 4)
#define SLUICE_BLOCKS_16(i) SLUICE_BLOCKS_8(i), SLUICE_BLOCKS_8(i + 8)
#define SLUICE_BLOCKS_32(i) SLUICE_BLOCKS_16(i), SLUICE_BLOCKS_16(i + 16)
#define SLUICE_REGISTERS_16 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SLUICE_REGISTERS_32 SLUICE_REGISTERS_16 ", " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SLUICE_REGISTERS_64 SLUICE_REGISTERS_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" ", " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SLUICE_REGISTERS_128 SLUICE_REGISTERS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" ", " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" ", " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" ", " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SLUICE_WGMMA(columns, types, registers, operands, adds_or_not, modes, inputs, ...)                       \
    asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " adds_or_not ", 0;\n"                   \
                 "wgmma.mma_async.sync.aligned.m64n" columns types " {" registers "}, " operands                \
                 ", accumulate, 1, 1" modes ";\n}\n"                                                            \
                 : __VA_ARGS__                                                                                 \
                 : inputs)
#define SLUICE_IN_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds)
#define SLUICE_WGMMA_REGISTERS(columns, registers, operands, adds_or_not, ...)                                  \
    if constexpr (is_half) {                                                                                   \
        SLUICE_WGMMA(columns, "k16.f32.f16.f16", registers, operands, adds_or_not, ", 0",                       \
                     SLUICE_PACK(SLUICE_IN_REGISTERS), __VA_ARGS__);                                            \
    } else if constexpr (std::is_same_v<T, bfloat16>) {                                                        \
        SLUICE_WGMMA(columns, "k16.f32.bf16.bf16", registers, operands, adds_or_not, ", 0",                     \
                     SLUICE_PACK(SLUICE_IN_REGISTERS), __VA_ARGS__);                                            \
    } else {                                                                                                   \
        SLUICE_WGMMA(columns, "k32.f32.e4m3.e4m3", registers, operands, adds_or_not, "",                        \
                     SLUICE_PACK(SLUICE_IN_REGISTERS), __VA_ARGS__);                                            \
    }
#define SLUICE_IN_SHARED "l"(a), "l"(b), "r"(adds), "n"(TransposedB)
#define SLUICE_WGMMA_SHARED(columns, registers, operands, adds_or_not, transposed, ...)                         \
    if constexpr (std::is_same_v<T, half>) {                                                                   \
        SLUICE_WGMMA(columns, "k16.f32.f16.f16", registers, operands, adds_or_not, ", 0, " transposed,          \
                     SLUICE_PACK(SLUICE_IN_SHARED), __VA_ARGS__);                                               \
    } else if constexpr (std::is_same_v<T, bfloat16>) {                                                        \
        SLUICE_WGMMA(columns, "k16.f32.bf16.bf16", registers, operands, adds_or_not, ", 0, " transposed,        \
                     SLUICE_PACK(SLUICE_IN_SHARED), __VA_ARGS__);                                               \
    } else {                                                                                                   \
        SLUICE_WGMMA(columns, "k8.f32.tf32.tf32", registers, operands, adds_or_not, "",                         \
                     SLUICE_PACK(SLUICE_IN_SHARED), __VA_ARGS__);                                               \
    }
#define SLUICE_PACK(...) __VA_ARGS__

template <typename T, int Blocks>
__device__ inline void wgmma(float (&d)[Blocks][4], const std::uint32_t (&a)[4], std::uint64_t b, int adds) {
    constexpr bool is_half = std::is_same_v<T, half>;
    static_assert(is_half || std::is_same_v<T, bfloat16> || std::is_same_v<T, f8_e4m3>);
    static_assert(Blocks == 4 || Blocks == 8 || Blocks == 16 || Blocks == 32);
    if constexpr (Blocks == 4) {
        SLUICE_WGMMA_REGISTERS("32", SLUICE_REGISTERS_16, "{%16, %17, %18, %19}, %20", "%21", SLUICE_BLOCKS_4(0))
    }
    else if constexpr (Blocks == 8) {
        SLUICE_WGMMA_REGISTERS("64", SLUICE_REGISTERS_32, "{%32, %33, %34, %35}, %36", "%37", SLUICE_BLOCKS_8(0))
    }
    else if constexpr (Blocks == 16) {
        SLUICE_WGMMA_REGISTERS("128", SLUICE_REGISTERS_64, "{%64, %65, %66, %67}, %68", "%69", SLUICE_BLOCKS_16(0))
    }
    else if constexpr (Blocks == 32) {
        SLUICE_WGMMA_REGISTERS("256", SLUICE_REGISTERS_128, "{%128, %129, %130, %131}, %132", "%133",
                               SLUICE_BLOCKS_32(0))
    }
}

// Both operands in shared memory, each as swizzled_operand() says; 32 bytes of k: 16 elements, or 8 floats, of which the
// tensor core takes the upper 19 bits (tf32). `TransposedB`: b is [16][N] with n contiguous, not for floats.
template <typename T, bool TransposedB, int Blocks>
__device__ inline void wgmma(float (&d)[Blocks][4], std::uint64_t a, std::uint64_t b, int adds) {
    static_assert(std::is_same_v<T, half> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float>);
    static_assert(!(TransposedB && std::is_same_v<T, float>));
    static_assert(Blocks == 8 || Blocks == 16 || Blocks == 32);
    if constexpr (Blocks == 8) {
        SLUICE_WGMMA_SHARED("64", SLUICE_REGISTERS_32, "%32, %33", "%34", "%35", SLUICE_BLOCKS_8(0))
    }
    else if constexpr (Blocks == 16) {
        SLUICE_WGMMA_SHARED("128", SLUICE_REGISTERS_64, "%64, %65", "%66", "%67", SLUICE_BLOCKS_16(0))
    }
    else if constexpr (Blocks == 32) {
        SLUICE_WGMMA_SHARED("256", SLUICE_REGISTERS_128, "%128, %129", "%130", "%131", SLUICE_BLOCKS_32(0))
    }
}
#undef SLUICE_BLOCK
#undef SLUICE_BLOCKS_4
#undef SLUICE_BLOCKS_8
#undef SLUICE_BLOCKS_16
#undef SLUICE_BLOCKS_32
#undef SLUICE_REGISTERS_16
#undef SLUICE_REGISTERS_32
#undef SLUICE_REGISTERS_64
#undef SLUICE_REGISTERS_128
#undef SLUICE_WGMMA
#undef SLUICE_IN_REGISTERS
#undef SLUICE_IN_SHARED
#undef SLUICE_WGMMA_REGISTERS
#undef SLUICE_WGMMA_SHARED
#undef SLUICE_PACK
// clang-format on

}  // namespace sluice::kernels
