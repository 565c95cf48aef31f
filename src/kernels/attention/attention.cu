// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.hpp"

#include <algorithm>

#if defined(__CUDACC__)
#include "kernels/attention/attention_fma.cuh"
#include "kernels/attention/attention_mma.cuh"
#endif
#include "runtime/parallel_parts.hpp"
#include "sluice/base/half.hpp"
#include "sluice/runtime/detail/closure.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t most_queries_of_block = 64, most_blocks = 0x7fff'ffff;

std::size_t blocks_of(const attention_call& call, std::size_t queries_of_block) {
    return (call.queries + queries_of_block - 1) / queries_of_block * call.heads * call.batches;
}

struct attention_kernel {
    const void* function = nullptr;
    unsigned threads = 0;
    std::size_t shared_bytes = 0, queries_of_block = most_queries_of_block;
};

#if defined(__CUDACC__)
template <typename T, int Width, int QueryWarps>
attention_kernel by_mma() {
    using shape = attention_shape<Width, QueryWarps>;
    return {reinterpret_cast<const void*>(&attend_by_mma<T, Width, QueryWarps>), attention_mma_threads,
            shape::shared_bytes, shape::queries};
}
template <typename T, int QueryWarps>
attention_kernel by_mma(std::size_t width) {
    return width == 64    ? by_mma<T, 64, QueryWarps>()
           : width == 128 ? by_mma<T, 128, QueryWarps>()
                          : by_mma<T, 256, QueryWarps>();
}
// All warps of a block divide the keys among them where one block has all queries of a head, and where otherwise at
// most a third of the multiprocessors would have a block. So the last bits of a row in 16 bits may depend on the number
// of batches.
template <typename T>
attention_kernel by_mma(const attention_call& call, std::size_t width, const device_properties& on) {
    const attention_kernel divided = by_mma<T, 1>(width), usual = by_mma<T, 4>(width);
    const bool is_short = call.queries <= divided.queries_of_block;
    const bool has_few_blocks =
        blocks_of(call, usual.queries_of_block) <= static_cast<std::size_t>(on.compute_units) / 3;
    const bool is_divided = (is_short || has_few_blocks) && divided.shared_bytes <= on.max_shared_bytes_per_block;
    return is_divided ? divided : usual;
}
attention_kernel by_fma(std::size_t width) {
    const void* const known[] = {reinterpret_cast<const void*>(&attend_by_fma<64>),
                                 reinterpret_cast<const void*>(&attend_by_fma<128>),
                                 reinterpret_cast<const void*>(&attend_by_fma<256>)};
    return {known[width / 128], attention_fma_threads, attention_fma_bytes(width)};
}

attention_kernel kernel_for(const attention_call& call, const device_properties& on) {
    const std::size_t most = std::max(call.size, call.value_size), width = most <= 64 ? 64 : most <= 128 ? 128 : 256;
    switch (call.factors) {
        case io::dtype::f16: return by_mma<half>(call, width, on);
        case io::dtype::bf16: return by_mma<bfloat16>(call, width, on);
        default: return by_fma(width);
    }
}
#else
attention_kernel kernel_for(const attention_call&, const device_properties&) { return {}; }
#endif

const attention_loops& loops_of_this_processor() {
#if defined(SLUICE_X86_VARIANTS)
    static const attention_loops& best = __builtin_cpu_supports("avx512f") ? attention_avx512
                                         : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                             ? attention_avx2
                                             : attention_baseline;
    return best;
#else
    return attention_baseline;
#endif
}

void attend_on_host(const void* closure) {
    constexpr std::size_t at_once = attention_loops::queries_at_once, products_of_part = 1u << 20;  // some 50 µs
    const auto& call = *static_cast<const attention_call*>(closure);
    const attention_loops& loops = loops_of_this_processor();
    const float scale = attention_factor(call);
    const std::size_t of_head = (call.queries + at_once - 1) / at_once, pieces = of_head * call.heads * call.batches;
    const std::size_t products = std::min(call.queries, at_once) * call.keys * (call.size + call.value_size);
    const std::size_t parts = sluice::detail::parts_for(pieces * products, products_of_part, pieces);
    sluice::detail::for_parts(parts, [&](std::size_t part) {
        const auto range = sluice::detail::range_of_part(pieces, parts, part);
        for (std::size_t i = range.first; i < range.last; ++i) {
            const std::size_t first = i % of_head * at_once, head = i / of_head % call.heads;
            loops.run(call, scale, i / of_head / call.heads, head, first, std::min(first + at_once, call.queries));
        }
    });
}

}  // namespace

bool has_attention(const attention_call& call, const device_properties& on) {
    const std::size_t most = std::max(call.size, call.value_size);
    if (most > attention_call::largest_size || call.size == 0 || call.value_size == 0 || call.queries == 0 ||
        call.keys == 0 || call.heads == 0 || call.batches == 0 ||
        blocks_of(call, most_queries_of_block) > most_blocks) {
        return false;
    }
    for (const attention_operand* const each : {&call.q, &call.k, &call.v, &call.y})
        if (each->type != io::dtype::f32 && each->type != call.factors) return false;
    if (on.compute_capability == 0) return call.factors == io::dtype::f32;
    if (call.factors != io::dtype::f32 && on.compute_capability < 80) return false;
    const attention_kernel found = kernel_for(call, on);
    return found.function != nullptr && found.shared_bytes <= on.max_shared_bytes_per_block;
}

launch_command attention_command(attention_call& call, const device_properties& on) {
    launch_command made;
    if (on.compute_capability != 0) {
        const attention_kernel found = kernel_for(call, on);
        made.device_function = found.function;
        made.block = {found.threads, 1, 1};
        made.grid = {static_cast<unsigned>(blocks_of(call, found.queries_of_block)), 1, 1};
        made.shared_bytes = found.shared_bytes;
        // In f32 the blocks compute long. Started early they find places on few multiprocessors, and share these: a
        // transformer took 1.15 to 1.25 times as long (an H200, one row).
        made.early_start = call.factors != io::dtype::f32;
    }
    made.host_function = &attend_on_host;
    sluice::detail::set_closure(made, call);
    return made;
}

float attention_number(const void* at, io::dtype type) {
    switch (type) {
        case io::dtype::f16: return *static_cast<const half*>(at);
        case io::dtype::bf16: return *static_cast<const bfloat16*>(at);
        default: return *static_cast<const float*>(at);
    }
}

float attention_factor(const attention_call& call) {
    float made = 1;
    for (std::size_t i = 0; i < call.scales; ++i) {
        const attention_scale& each = call.scale[i];
        const float one = each.at != nullptr ? attention_number(each.at, each.type) : each.value;
        made = each.is_divisor != 0 ? made / one : made * one;
    }
    return made;
}

}  // namespace sluice::kernels
