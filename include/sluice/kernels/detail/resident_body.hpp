// SPDX-License-Identifier: Apache-2.0
// The two forms of a kernel that stays: a __global__ function on the GPU, and a call on the CPU. See
// resident_kernel.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sluice/base/kernel.hpp"
#include "sluice/base/thread_block.hpp"
#include "sluice/kernels/detail/host_words.hpp"
#include "sluice/kernels/detail/resident_core.hpp"
#include "sluice/kernels/detail/resident_words.hpp"
#include "sluice/runtime/launch.hpp"

namespace sluice::detail {

template <typename CallOperator>
struct resident_call_operator {};
template <typename Kernel, typename Request, typename Answer>
struct resident_call_operator<void (Kernel::*)(const thread_block&, const Request&, Answer&)> {
    using request = Request;
    using answer = Answer;
};
template <typename Kernel, typename Request, typename Answer>
struct resident_call_operator<void (Kernel::*)(const thread_block&, const Request&, Answer&) const>
    : resident_call_operator<void (Kernel::*)(const thread_block&, const Request&, Answer&)> {};

template <typename Kernel>
struct resident_signature {};
template <typename Kernel>
requires requires { &Kernel::operator(); }
struct resident_signature<Kernel> : resident_call_operator<decltype(&Kernel::operator())> {};

template <typename Kernel>
concept has_resident_signature = requires { typename resident_signature<Kernel>::request; };

// What a lane does, as the host sees it.
enum class resident_lane_state : std::uint32_t { not_begun, begun, ended };

// What the kernel is launched with; all addresses are of pinned host memory.
struct resident_kernel_call {
    const std::uint32_t* kernel;  // the bytes of the kernel object
    const std::uint64_t* inbox;   // words [lanes][requests][pitch of a request]
    std::uint64_t* outbox;        // words [lanes][requests][pitch of an answer]
    std::uint32_t* states;        // [lanes]: resident_lane_state
    const std::uint32_t* stop;    // not 0: the kernel ends
    std::uint32_t lanes;
    std::uint32_t requests;
    std::uint32_t pause;           // nanoseconds between two looks into the inbox; 0 for none
    std::uint64_t longest_ending;  // nanoseconds from the stop to the end
};

inline namespace SLUICE_LAUNCH_ABI {

// The shared memory of a block: each part begins at a multiple of 16 bytes and has whole words.
template <typename Kernel, typename Request, typename Answer>
struct resident_memory {
    static constexpr std::size_t alignment = alignof(Kernel) > 16 ? alignof(Kernel) : 16;
    struct alignas(alignment) kernel_room {
        std::uint32_t words[resident_words(sizeof(Kernel))];
    };
    struct alignas(16) request_room {
        std::uint32_t words[resident_words(sizeof(Request))];
    };
    struct alignas(16) answer_room {
        std::uint32_t words[resident_words(sizeof(Answer))];
    };

    kernel_room kernel;
    request_room request;
    answer_room answer;
    std::uint32_t has_ended;
};

#if defined(__CUDACC__)

__device__ inline std::uint64_t global_nanoseconds() {
    std::uint64_t made;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(made));
    return made;
}
__device__ inline void pause_for([[maybe_unused]] std::uint32_t nanoseconds) {
#if __CUDA_ARCH__ >= 700
    if (nanoseconds != 0) __nanosleep(nanoseconds);
#endif
}

// Looks into the host's memory, each of which takes more than a microsecond, between two looks for the end.
inline constexpr unsigned resident_looks_for_end = 64;

// A request's words, the thread's own ones; false when the kernel is to end. The first word of each thread is polled;
// then the others are read several at a time.
__device__ inline bool read_request(std::uint32_t* to, std::uint32_t words, const std::uint64_t* entry,
                                    std::uint32_t flag, const resident_kernel_call& call) {
    constexpr std::uint32_t at_once = 8;
    for (std::uint32_t first = threadIdx.x, count = 1; first < words; first += count * blockDim.x, count = at_once) {
        std::uint64_t found[at_once];
        for (unsigned looks = 1;; ++looks) {
            bool all = true;
#pragma unroll
            for (std::uint32_t i = 0; i < at_once; ++i) {
                const std::uint32_t at = first + i * blockDim.x;
                if (i < count && at < words) found[i] = read_host_word(entry + at);
            }
#pragma unroll
            for (std::uint32_t i = 0; i < at_once; ++i) {
                const std::uint32_t at = first + i * blockDim.x;
                if (i < count && at < words) all = all && static_cast<std::uint32_t>(found[i] >> 32) == flag;
            }
            if (all) break;
            if (looks % resident_looks_for_end == 0 && read_host_word(call.stop) != 0) return false;
            pause_for(call.pause);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < at_once; ++i) {
            const std::uint32_t at = first + i * blockDim.x;
            if (i < count && at < words) to[at] = static_cast<std::uint32_t>(found[i]);
        }
    }
    return true;
}

// The last block, of which one thread stays: when the kernel is to end and a lane does not, a trap ends it.
__device__ inline void watch_resident_lanes(const resident_kernel_call& call) {
    if (threadIdx.x != 0) return;
    constexpr std::uint32_t between_looks = 20'000;
    while (read_host_word(call.stop) == 0) pause_for(between_looks);
    std::uint64_t begin = global_nanoseconds();
    for (std::uint32_t lane = 0; lane < call.lanes;) {
        const auto state = static_cast<resident_lane_state>(read_host_word(call.states + lane));
        const std::uint64_t now = global_nanoseconds();
        if (state == resident_lane_state::ended) {
            ++lane;
            continue;
        }
        if (state == resident_lane_state::not_begun) begin = now;  // other work has its multiprocessor
        if (now - begin > call.longest_ending) __trap();
        pause_for(between_looks);
    }
}

template <typename Kernel, typename Request, typename Answer>
__global__ void __launch_bounds__(1024) stay_on_device(const __grid_constant__ resident_kernel_call call) {
    extern __shared__ __align__(128) std::byte sluice_shared_memory[];
    if (blockIdx.x == call.lanes) return watch_resident_lanes(call);
    auto& memory = *reinterpret_cast<resident_memory<Kernel, Request, Answer>*>(sluice_shared_memory);
    for (std::uint32_t i = threadIdx.x; i < resident_words(sizeof(Kernel)); i += blockDim.x)
        memory.kernel.words[i] = read_host_word(call.kernel + i);
    if (threadIdx.x == 0) memory.has_ended = 0;
    __syncthreads();
    std::uint32_t* const state = call.states + blockIdx.x;
    if (threadIdx.x == 0) write_host_word(state, static_cast<std::uint32_t>(resident_lane_state::begun));

    constexpr std::uint32_t in = resident_words(sizeof(Request)), out = resident_words(sizeof(Answer));
    const std::size_t first_entry = std::size_t{blockIdx.x} * call.requests;
    const thread_block block({blockIdx.x, 0, 0}, {call.lanes, 1, 1}, {blockDim.x, 1, 1}, nullptr);
    std::uint32_t entry = 0;
    for (std::uint32_t flag = 1;; flag = next_resident_flag(flag)) {
        const std::size_t at = first_entry + entry;
        entry = entry + 1 == call.requests ? 0 : entry + 1;
        if (!read_request(memory.request.words, in, call.inbox + at * resident_pitch(in), flag, call))
            memory.has_ended = 1;
        __syncthreads();
        if (memory.has_ended != 0) break;
        (*reinterpret_cast<Kernel*>(&memory.kernel))(block, *reinterpret_cast<const Request*>(&memory.request),
                                                     *reinterpret_cast<Answer*>(&memory.answer));
        __syncthreads();
        std::uint64_t* const answer = call.outbox + at * resident_pitch(out);
        for (std::uint32_t i = threadIdx.x; i < out; i += blockDim.x)
            write_host_word(answer + i, memory.answer.words[i], flag);
    }
    if (threadIdx.x == 0) write_host_word(state, static_cast<std::uint32_t>(resident_lane_state::ended));
}

#endif

template <typename Kernel>
struct resident_body {
    using request = typename resident_signature<Kernel>::request;
    using answer = typename resident_signature<Kernel>::answer;
    static_assert(std::is_trivially_copyable_v<request> && std::is_trivially_copyable_v<answer>,
                  "resident_kernel: requests and answers are copied byte by byte");
    static_assert(alignof(request) <= 16 && alignof(answer) <= 16,
                  "resident_kernel: requests and answers are not over-aligned");
    static_assert(alignof(Kernel) <= 128, "resident_kernel: a kernel object is aligned to at most 128 bytes");

    static void call_on_host(void* kernel, unsigned lane, unsigned lanes, unsigned threads, const void* asked,
                             void* made) {
        const thread_block block({lane, 0, 0}, {lanes, 1, 1}, {threads, 1, 1}, nullptr);
        (*static_cast<Kernel*>(kernel))(block, *static_cast<const request*>(asked), *static_cast<answer*>(made));
    }

    static resident_form form() {
        resident_form made{type_name<Kernel>(),
                           nullptr,
                           &call_on_host,
                           sizeof(Kernel),
                           sizeof(request),
                           sizeof(answer),
                           sizeof(resident_memory<Kernel, request, answer>)};
#if defined(__CUDACC__)
        made.device_function = reinterpret_cast<const void*>(&stay_on_device<Kernel, request, answer>);
#endif
        return made;
    }
};

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail
