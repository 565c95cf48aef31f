// SPDX-License-Identifier: Apache-2.0
// How the kernel of a network that stays reads the words of a request and writes those of its answer
// (resident_layout.hpp).
//
// The first row's words are read until the request is there. Those of the other rows are read at the same time when the
// request before had these rows: so requests of as many rows as the one before take one read's time, and a request of
// one row does not wait for reads of rows that it does not have.
//
// A read takes longer than a microsecond. A caller that asks again at once writes its next request about when the first
// read looks at it; and if it is a little late, the next read finds it more than a microsecond later. So the first look
// is later when the second one found the request, and sooner when the first one did (look_timing).
#pragma once

#include <cstdint>

#include "kernels/resident/resident_layout.hpp"
#include "sluice/kernels/detail/host_words.hpp"

namespace sluice::kernels::resident {

using sluice::detail::read_host_word;

inline constexpr unsigned whole_warp = 0xffffffff;
// Looks into the host's memory before it looks for an end: each takes more than a microsecond.
inline constexpr unsigned looks_for_request = 64;

// Of an expression that is read again when other threads have written.
template <typename T>
__device__ inline T now(const T& in_shared_memory) {
    return *static_cast<const volatile T*>(&in_shared_memory);
}

// All 16 bytes at once.
__device__ inline uint4 read_word(const resident_word* word) {
    std::uint64_t low, high;
    asm volatile("{.reg .b128 all; ld.relaxed.sys.global.b128 all, [%2]; mov.b128 {%0, %1}, all;}"
                 : "=l"(low), "=l"(high)
                 : "l"(word)
                 : "memory");
    return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high),
            static_cast<std::uint32_t>(high >> 32)};
}
__device__ inline void write_word(resident_word* word, std::uint64_t low, std::uint64_t high, std::uint32_t flag) {
    asm volatile("{.reg .b128 all; mov.b128 all, {%1, %2}; st.relaxed.sys.global.b128 [%0], all;}" ::"l"(word),
                 "l"(low), "l"(high | std::uint64_t{flag} << 48)
                 : "memory");
}

// What the threads of a block share in addition to the layout's memory.
struct block_state {
    std::uint64_t arrived[most_resident_layers];  // an mbarrier for each layer: all parts of the sums are there
    std::uint32_t flag;                           // of the request
    std::uint32_t ended;                          // not 0: no request comes any more
};

// How many cycles a warp waits before it looks for the next request. At most: a block that has no part in the last
// layer's sums ends sooner, and until a request of eight rows is written the answer's way, the caller and the writing
// take some 4,000 cycles, of which the first look may have begun 1,000 before.
struct look_timing {
    static constexpr std::uint32_t later = 64, most = 5120;
    std::uint32_t delay = 0;

    __device__ void wait() const {
        const auto begin = static_cast<std::uint32_t>(clock64());
        while (static_cast<std::uint32_t>(clock64()) - begin < delay) {
        }
    }
    __device__ void learn(unsigned looks) {
        if (looks == 1 && delay != 0) --delay;
        if (looks == 2) delay = min(delay + later, most);
    }
};

// Reads a block's slice of the inputs of request `number`; `store(row, word, data)` gets each word once. `expected`:
// the rows of the request before. All threads call it; afterwards the state is known to all.
template <typename Store>
__device__ inline void read_request(block_state& state, const resident_call& call, const resident_word* entry,
                                    std::uint32_t rank, std::uint32_t number, std::uint32_t expected,
                                    look_timing& timing, const Store& store) {
    const std::uint32_t width = call.layout.words, all = resident_words_of(call.layout.layer[0].inputs);
    const std::uint32_t mine = min(all - min(rank * width, all), width);
    entry += rank * call.layout.input_pitch();
    const std::uint32_t row = threadIdx.x / width, word = threadIdx.x - row * width;
    std::uint32_t rows = 0;  // not known yet
    // Whole warps, whose lanes stay together: a lane that only waits for the number of rows would else take the turns
    // of those that read.
    if (threadIdx.x / 32 * 32 < width * call.layout.rows) {
        // A block without inputs watches one word.
        const bool has_word = word < max(mine, 1u) && row < call.layout.rows && (mine != 0 || row == 0);
        bool is_done = !has_word;
        if (__any_sync(whole_warp, has_word && row < expected)) timing.wait();
        for (unsigned looks = 0;;) {
            const bool reads = !is_done && row < (rows == 0 ? expected : rows);
            if (reads) {
                const uint4 found = read_word(entry + threadIdx.x);
                if (found.w >> 20 == number) {
                    is_done = true;
                    if ((found.w >> 16) % 16 < resident_reload && mine != 0) store(row, word, found);
                    if (threadIdx.x == 0) *static_cast<volatile std::uint32_t*>(&state.flag) = found.w >> 16;
                }
            }
            const bool has_read = __any_sync(whole_warp, reads);
            if (has_read) ++looks;
            if (rows == 0) {
                const std::uint32_t flag = now(state.flag);
                if (flag >> 4 == number) rows = flag % 16 >= resident_reload ? 1 : flag % 16 + 1;
            }
            if (__all_sync(whole_warp, rows != 0 && (is_done || row >= rows))) {
                timing.learn(looks);
                break;
            }
            if (has_read) {
                if (looks % looks_for_request == 0 && read_host_word(call.stop) != 0) state.ended = 1;
                if (call.pause != 0) __nanosleep(call.pause);
            }
            __syncwarp();
            if (__any_sync(whole_warp, now(state.ended) != 0)) break;
        }
    }
    // More words than threads: by now the host writes them, or has written them.
    for (std::uint32_t i = threadIdx.x + blockDim.x; rows != 0 && i < width * rows; i += blockDim.x) {
        const std::uint32_t of_row = i / width, at = i - of_row * width;
        if (at >= mine) continue;
        uint4 found = read_word(entry + i);
        for (unsigned looks = 1; found.w >> 20 != number && now(state.ended) == 0; ++looks) {
            if (looks % looks_for_request == 0 && read_host_word(call.stop) != 0) state.ended = 1;
            found = read_word(entry + i);
        }
        if ((found.w >> 16) % 16 < resident_reload) store(of_row, at, found);
    }
    __syncthreads();
}

// Writes the answer, which is in shared memory. All threads of a block may call it, after a barrier.
__device__ inline void write_answer(const std::uint16_t* answer, std::uint32_t elements, resident_word* entry,
                                    std::uint32_t flag) {
    for (std::uint32_t i = threadIdx.x; i < resident_words_of(elements); i += blockDim.x) {
        std::uint64_t halves[2] = {};
#pragma unroll
        for (std::uint32_t k = 0; k < resident_word_elements; ++k)
            halves[k / 4] |= std::uint64_t{answer[i * resident_word_elements + k]} << 16 * (k % 4);
        write_word(entry + i, halves[0], halves[1], flag);
    }
}

}  // namespace sluice::kernels::resident
