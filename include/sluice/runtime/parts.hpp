// SPDX-License-Identifier: Apache-2.0
// split, join, slice: parts of tensors, without a copy.
//
//     zeros<float>({1024, 64})
//         .transform([](auto x) { return split<2>(std::move(x)); })
//         .and_then([](auto top, auto bottom) { return zip(work(std::move(top)), work(std::move(bottom))); })
//         .transform([](auto top, auto bottom) { return join(std::move(top), std::move(bottom)); })
//
// A part is a tensor like any other: it owns its rows, and may be passed on and dropped at any moment. It has a history
// of its own, so streams that work on different parts do not wait for each other. The memory returns to its pool with
// the last part. What joins parts is ordered after all commands on them.
//
// These functions run on the host and submit nothing; they are for `transform`, or for tensors that one has. They split
// along the first dimension, which is the length of a vector and the number of rows of a matrix. A block of columns, or
// a tile, is no part: its rows are apart in memory, and a tensor's elements follow each other. For a kernel that writes
// tiles, partition the tensor (tensor.hpp); else copy the block into a tensor of its own.
//
// Each part begins at a multiple of part_alignment in the tensor's memory, as whole tensors do: kernels and libraries
// read 16 bytes and more at a time.
//
// Inside a compiled graph, parts of a tensor that the graph allocates or receives are ordered as if they were the
// whole. An output of a graph is a whole tensor. A tensor that a compiled graph captured and writes cannot be split,
// sliced or joined: errc::invalid_argument. What a graph or a loop returns for a part may be other memory, which is no
// part.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/op/shared.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

inline constexpr std::size_t part_alignment = 256;  // in bytes

namespace detail {

// The lengths, along the first dimension, of `count` parts of about equal size. Throws errc::shape_mismatch when there
// are not that many, or the shape has no dimension.
std::vector<std::size_t> equal_parts(const shape& whole, std::size_t element_bytes, std::size_t count);
// Throws errc::shape_mismatch unless these parts make up the whole, and each begins aligned.
void require_parts(const shape& whole, std::size_t element_bytes, std::span<const std::size_t> lengths);
// Throws errc::shape_mismatch unless this is a part of the whole that begins aligned.
void require_slice(const shape& whole, std::size_t element_bytes, std::size_t first, std::size_t length);
// The number of bytes of one index of the first dimension.
std::size_t bytes_of_one(const shape& whole, std::size_t element_bytes) noexcept;
// The same with another length of the first dimension.
shape with_length(const shape& whole, std::size_t length);

// What join needs of a part.
struct part_view {
    storage* memory;
    sluice::shape shape;
    std::size_t bytes;
};
// The shape of the parts together. Throws errc::invalid_argument for a part that was moved from, for no parts, or for
// parts that do not follow each other in one tensor; errc::shape_mismatch when they differ in other dimensions.
shape require_neighbours(std::span<const part_view> parts);

template <typename T>
tensor<T> part_of(const tensor<T>& from, std::size_t first, std::size_t length, std::shared_ptr<const void> owner) {
    const shape rows = with_length(from.shape(), length);
    const std::size_t one = bytes_of_one(from.shape(), sizeof(T));
    return tensor<T>(buffer<T>(storage::part_of(*from.memory(), first * one, rows.size() * sizeof(T), std::move(owner)),
                               rows.size()),
                     rows);
}

template <typename T>
std::vector<tensor<T>> split_at(tensor<T> whole, std::span<const std::size_t> lengths) {
    std::vector<tensor<T>> parts;
    parts.reserve(lengths.size());
    if (lengths.size() == 1) {
        parts.push_back(std::move(whole));
        return parts;
    }
    std::size_t first = 0;
    for (const std::size_t length : lengths) {
        parts.push_back(part_of(whole, first, length, {}));
        first += length;
    }
    return parts;
}

}  // namespace detail

// Splits a tensor into parts of these lengths along its first dimension; together they are the whole. Throws
// errc::shape_mismatch when they are not, or when a part would not begin aligned; errc::invalid_argument for a tensor
// that was moved from. The tensor is then lost. Linear in the number of parts, whatever they hold: each allocates one
// object on the host.
template <typename T>
std::vector<tensor<T>> split(tensor<T> whole, std::span<const std::size_t> lengths) {
    detail::require_held(whole, {"split"});
    detail::require_parts(whole.shape(), sizeof(T), lengths);
    return detail::split_at(std::move(whole), lengths);
}
template <typename T>
std::vector<tensor<T>> split(tensor<T> whole, std::initializer_list<std::size_t> lengths) {
    return split(std::move(whole), std::span(lengths.begin(), lengths.size()));
}
// Into `count` parts whose lengths differ as little as the alignment allows. Throws as above, and when there cannot be
// that many. Linear in the number of parts, as above.
template <typename T>
std::vector<tensor<T>> split(tensor<T> whole, std::size_t count) {
    detail::require_held(whole, {"split"});
    const std::vector<std::size_t> lengths = detail::equal_parts(whole.shape(), sizeof(T), count);
    return detail::split_at(std::move(whole), lengths);
}
// The same as a tuple, which and_then passes as separate arguments.
template <std::size_t Count, typename T>
auto split(tensor<T> whole) {
    std::vector<tensor<T>> parts = split(std::move(whole), Count);
    return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
        return std::tuple{std::move(parts[Is])...};
    }(std::make_index_sequence<Count>());
}

// One tensor of parts that follow each other in one tensor, in this order. Commands on it come after all commands on
// the parts, and fail where one of those failed. Throws errc::invalid_argument when the parts are not neighbours,
// errc::shape_mismatch when they differ in another dimension than the first. Linear in the number of parts and of the
// queues that have used them.
template <typename T>
tensor<T> join(std::vector<tensor<T>> parts) {
    std::vector<detail::part_view> views;
    std::vector<storage_ref> memory;
    for (const tensor<T>& each : parts) {
        views.push_back({each.memory(), each.shape(), each.size_bytes()});
        memory.push_back(storage_ref(each.memory()));
    }
    const shape together = detail::require_neighbours(views);
    return tensor<T>(buffer<T>(storage::join(memory), together.size()), together);
}
template <typename T, typename... Others>
tensor<T> join(tensor<T> first, Others... others) {
    std::vector<tensor<T>> parts;
    parts.reserve(1 + sizeof...(others));
    parts.push_back(std::move(first));
    (parts.push_back(std::move(others)), ...);
    return join(std::move(parts));
}

// A part of a shared tensor, to read. Keeps the whole alive. Throws errc::shape_mismatch when there is no such part,
// or when it would not begin aligned. Takes constant time, whatever it holds.
template <typename T>
shared_tensor<T> slice(const shared_tensor<T>& whole, std::size_t first, std::size_t length) {
    detail::require_held(whole, {"slice"});
    detail::require_slice(whole->shape(), sizeof(T), first, length);
    return shared_tensor<T>(detail::part_of(*whole, first, length, std::make_shared<const shared_tensor<T>>(whole)));
}

}  // namespace sluice
