// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "devices/collective_call.hpp"

namespace sluice::detail {
namespace {

// Elements are combined one block at a time, in a wider type where there is one, and the finished block is then
// written. So inputs may be outputs.
constexpr std::size_t block = 1024;

template <typename T>
struct widened {
    using type = T;
};
template <>
struct widened<half> {
    using type = float;
};
template <>
struct widened<bfloat16> {
    using type = float;
};

template <typename T>
bool is_nan([[maybe_unused]] T x) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
    return false;
}

// A NaN on either side stays NaN, as in NCCL's sums.
template <typename T>
T put_together(T a, T b, reduce_op how) {
    if constexpr (std::is_same_v<T, int>) {  // wraps around, as on a GPU
        if (how == reduce_op::sum) return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
    }
    if (how == reduce_op::sum) return a + b;
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    return how == reduce_op::max ? std::max(a, b) : std::min(a, b);
}

template <typename T>
void reduce_block(const collective_call& call, std::size_t first, std::size_t count, T* to) {
    using wide = typename widened<T>::type;
    wide sums[block];
    const auto* const start = static_cast<const T*>(call.parts[0].in) + first;
    for (std::size_t i = 0; i < count; ++i) sums[i] = static_cast<wide>(start[i]);
    for (std::size_t rank = 1; rank < call.ranks; ++rank) {
        const auto* const theirs = static_cast<const T*>(call.parts[rank].in) + first;
        for (std::size_t i = 0; i < count; ++i)
            sums[i] = put_together(sums[i], static_cast<wide>(theirs[i]), call.form.how);
    }
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(sums[i]);
}

template <typename T>
void all_reduce(const collective_call& call) {
    T made[block];
    for (std::size_t first = 0; first < call.form.count; first += block) {
        const std::size_t count = std::min(block, call.form.count - first);
        reduce_block<T>(call, first, count, made);
        for (std::size_t rank = 0; rank < call.ranks; ++rank)
            std::memcpy(static_cast<T*>(call.parts[rank].out) + first, made, count * sizeof(T));
    }
}

template <typename T>
void reduce_scatter(const collective_call& call) {
    for (std::size_t rank = 0; rank < call.ranks; ++rank) {
        for (std::size_t first = 0; first < call.form.count; first += block) {
            const std::size_t count = std::min(block, call.form.count - first);
            reduce_block<T>(call, rank * call.form.count + first, count, static_cast<T*>(call.parts[rank].out) + first);
        }
    }
}

void broadcast(const collective_call& call, std::size_t bytes) {
    const void* const from = call.parts[call.form.root].in;
    for (std::size_t rank = 0; rank < call.ranks; ++rank) {
        if (rank != call.form.root) std::memcpy(call.parts[rank].out, from, bytes);
    }
}

void all_gather(const collective_call& call, std::size_t bytes) {
    for (std::size_t to = 0; to < call.ranks; ++to) {
        for (std::size_t from = 0; from < call.ranks; ++from)
            std::memcpy(static_cast<std::byte*>(call.parts[to].out) + from * bytes, call.parts[from].in, bytes);
    }
}

template <typename T>
void run(const collective_call& call) {
    switch (call.form.kind) {
        case collective_kind::all_reduce: return all_reduce<T>(call);
        case collective_kind::reduce_scatter: return reduce_scatter<T>(call);
        case collective_kind::broadcast: return broadcast(call, call.form.count * sizeof(T));
        case collective_kind::all_gather: return all_gather(call, call.form.count * sizeof(T));
    }
}

}  // namespace

void run_collective_on_host(const collective_call& call) noexcept {
    switch (call.form.type) {
        case collective_type::f32: return run<float>(call);
        case collective_type::f64: return run<double>(call);
        case collective_type::f16: return run<half>(call);
        case collective_type::bf16: return run<bfloat16>(call);
        case collective_type::i32: return run<int>(call);
        case collective_type::u32: return run<unsigned>(call);
    }
}

}  // namespace sluice::detail
