// SPDX-License-Identifier: Apache-2.0
// Collectives: operations of all ranks of a communicator together. Each is one operation over the tensors of all ranks,
// one tensor per rank, in order; each tensor lives on its rank's device.
//
//     all_reduce(all, reduce_op::sum, parts)       -> the same tensors, each with the sum (or max, min) of all
//     all_gather(all, parts)                       -> per rank a tensor with all parts' rows, in order
//     reduce_scatter(all, reduce_op::sum, parts)   -> per rank a tensor: its block of rows of the sum; rows must divide
//     broadcast(all, shared_tensor)                -> a shared_tensor per rank, copied from the rank that has it
//
// A collective is one command on a stream of rank 0's device, which names all the tensors. So it comes after the
// commands that wrote them, on all devices, and commands that use its outputs come after it. Elements are float,
// double, half, bfloat16, int or unsigned. All parts must have one shape.
//
// Throws errc::invalid_argument when the number of parts differs from the number of ranks, and for a part that is not
// on its rank's device; errc::shape_mismatch for parts of different shapes, or rows that do not divide.
//
// In a compiled graph of rank 0's device a collective is one node. The other ranks' tensors are outside the graph,
// which keeps their memory: record them with all_reduce(stream, ...).
#pragma once

#include <utility>
#include <vector>

#include "sluice/base/half.hpp"
#include "sluice/devices/communicator.hpp"
#include "sluice/devices/detail/rows.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice {

namespace detail {

enum class collective_kind : unsigned char { all_reduce, broadcast, all_gather, reduce_scatter };
enum class collective_type : unsigned char { f32, f64, f16, bf16, i32, u32 };

template <typename T>
inline constexpr bool is_collective_element = false;
template <>
inline constexpr bool is_collective_element<float> = true;
template <>
inline constexpr bool is_collective_element<double> = true;
template <>
inline constexpr bool is_collective_element<half> = true;
template <>
inline constexpr bool is_collective_element<bfloat16> = true;
template <>
inline constexpr bool is_collective_element<int> = true;
template <>
inline constexpr bool is_collective_element<unsigned> = true;

template <typename T>
constexpr collective_type collective_type_of() {
    if constexpr (std::is_same_v<T, float>) return collective_type::f32;
    if constexpr (std::is_same_v<T, double>) return collective_type::f64;
    if constexpr (std::is_same_v<T, half>) return collective_type::f16;
    if constexpr (std::is_same_v<T, bfloat16>) return collective_type::bf16;
    if constexpr (std::is_same_v<T, int>) return collective_type::i32;
    return collective_type::u32;
}

struct collective_form {
    const char* name;  // the command's name
    collective_kind kind;
    collective_type type;
    reduce_op how = reduce_op::sum;
    std::size_t root = 0;   // of a broadcast
    std::size_t count = 0;  // elements: of each input, or of each output of reduce_scatter
};
// One rank's memory; `in` and `out` may be the same.
struct collective_part {
    storage* in;
    storage* out;
};
// Submits to a stream of rank 0's device; throws errc::invalid_argument for another device's stream.
void submit_collective(stream on, const communicator& among, const collective_form& form,
                       std::span<const collective_part> parts, const source_location& location);

// Throws unless there is one part per rank, on the rank's device, and all have one shape.
void check_parts(const communicator& among, const char* name, std::span<const shape> shapes,
                 std::span<storage* const> memory, const source_location& location);
// The rows of each rank's block. Throws errc::shape_mismatch unless they divide.
std::size_t rows_of_block(const shape& whole, std::size_t ranks, const source_location& location);
std::size_t rank_of(const communicator& among, const storage* memory, const source_location& location);

template <typename T>
void check_parts(const communicator& among, const char* name, const std::vector<tensor<T>>& parts,
                 const source_location& location) {
    std::vector<shape> shapes;
    std::vector<storage*> memory;
    for (const tensor<T>& each : parts) {
        shapes.push_back(each.shape());
        memory.push_back(each.memory());
    }
    check_parts(among, name, shapes, memory, location);
}

// A new tensor for each rank; a collective writes them.
template <typename T>
std::vector<tensor<T>> make_parts(execution_context& context, const communicator& among, const shape& each,
                                  const command_info& info) {
    std::vector<tensor<T>> made;
    made.reserve(among.size());
    for (device* const there : among.devices()) made.emplace_back(context.on(*there).stream(), each, info);
    return made;
}

// Submits a collective from one tensor per rank to another, on a stream of the context.
template <typename T>
void submit_collective(execution_context& context, const communicator& among, const collective_form& form,
                       const std::vector<tensor<T>>& from, const std::vector<tensor<T>>& to,
                       const source_location& location) {
    std::vector<collective_part> all;
    for (std::size_t i = 0; i < from.size(); ++i) all.push_back({from[i].memory(), to[i].memory()});
    submit_collective(context.on(among.devices()[0]).stream(), among, form, all, location);
}

template <typename T>
void all_reduce_checked(stream on, const communicator& among, reduce_op how, const std::vector<tensor<T>>& parts,
                        const source_location& location) {
    std::vector<collective_part> all;
    for (const tensor<T>& each : parts) all.push_back({each.memory(), each.memory()});
    submit_collective(on, among,
                      {.name = "all_reduce",
                       .kind = collective_kind::all_reduce,
                       .type = collective_type_of<T>(),
                       .how = how,
                       .count = parts.front().size()},
                      all, location);
}

}  // namespace detail

// For a stream of rank 0's device, which may be a recorder's: a graph of that device can then sum the tensors of all
// ranks between its own commands. Costs O(ranks) on the host, and one command.
template <typename T>
requires detail::is_collective_element<T>
void all_reduce(stream on, const communicator& among, reduce_op how, std::vector<tensor<T>>& parts,
                source_location location = source_location::current()) {
    detail::check_parts(among, "all_reduce", parts, location);
    detail::all_reduce_checked(on, among, how, parts, location);
}

template <typename T>
class all_reduce_operation : public operation_base<all_reduce_operation<T>> {
public:
    using output = std::vector<tensor<T>>;

    all_reduce_operation(communicator among, reduce_op how, std::vector<tensor<T>> parts,
                         const source_location& location)
        : among_(std::move(among)), how_(how), parts_(std::move(parts)), location_(location) {
        detail::check_parts(among_, "all_reduce", parts_, location_);
    }
    all_reduce_operation(all_reduce_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        detail::all_reduce_checked(context.on(among_.devices()[0]).stream(), among_, how_, parts_, location_);
        return std::move(parts_);
    }
    work_estimate estimate() const { return {1, parts_.front().size_bytes()}; }

private:
    communicator among_;
    reduce_op how_;
    std::vector<tensor<T>> parts_;
    source_location location_;
};

template <typename T>
class all_gather_operation : public operation_base<all_gather_operation<T>> {
public:
    using output = std::vector<tensor<T>>;

    all_gather_operation(communicator among, std::vector<tensor<T>> parts, const source_location& location)
        : among_(std::move(among)), parts_(std::move(parts)), location_(location) {
        detail::check_parts(among_, "all_gather", parts_, location_);
    }
    all_gather_operation(all_gather_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        const shape& part = parts_.front().shape();
        const shape whole = part.rank() == 0 ? shape{among_.size()} : detail::with_rows(part, part[0] * among_.size());
        output made = detail::make_parts<T>(context, among_, whole, {"all_gather", {}, location_});
        detail::submit_collective(context, among_,
                                  {.name = "all_gather",
                                   .kind = detail::collective_kind::all_gather,
                                   .type = detail::collective_type_of<T>(),
                                   .count = part.size()},
                                  parts_, made, location_);
        return made;
    }
    work_estimate estimate() const { return {1, among_.size() * parts_.front().size_bytes()}; }

private:
    communicator among_;
    std::vector<tensor<T>> parts_;
    source_location location_;
};

template <typename T>
class reduce_scatter_operation : public operation_base<reduce_scatter_operation<T>> {
public:
    using output = std::vector<tensor<T>>;

    reduce_scatter_operation(communicator among, reduce_op how, std::vector<tensor<T>> parts,
                             const source_location& location)
        : among_(std::move(among)), how_(how), parts_(std::move(parts)), location_(location) {
        detail::check_parts(among_, "reduce_scatter", parts_, location_);
        rows_ = detail::rows_of_block(parts_.front().shape(), among_.size(), location_);
    }
    reduce_scatter_operation(reduce_scatter_operation&&) noexcept = default;  // tensors in a vector cannot be copied

    output submit(execution_context& context) && {
        const shape block = detail::with_rows(parts_.front().shape(), rows_);
        output made = detail::make_parts<T>(context, among_, block, {"reduce_scatter", {}, location_});
        detail::submit_collective(context, among_,
                                  {.name = "reduce_scatter",
                                   .kind = detail::collective_kind::reduce_scatter,
                                   .type = detail::collective_type_of<T>(),
                                   .how = how_,
                                   .count = block.size()},
                                  parts_, made, location_);
        return made;
    }
    work_estimate estimate() const { return {1, parts_.front().size_bytes()}; }

private:
    communicator among_;
    reduce_op how_;
    std::vector<tensor<T>> parts_;
    std::size_t rows_ = 0;
    source_location location_;
};

template <typename T>
class broadcast_operation : public operation_base<broadcast_operation<T>> {
public:
    using output = std::vector<shared_tensor<T>>;

    broadcast_operation(communicator among, shared_tensor<T> from, const source_location& location)
        : among_(std::move(among)),
          from_(std::move(from)),
          root_(detail::rank_of(among_, from_->memory(), location)),
          location_(location) {}

    output submit(execution_context& context) && {
        output made;
        std::vector<detail::collective_part> all;
        for (std::size_t i = 0; i < among_.size(); ++i) {
            if (i == root_) {
                made.push_back(from_);
                all.push_back({from_->memory(), from_->memory()});
                continue;
            }
            made.push_back(shared(
                tensor<T>(context.on(among_.devices()[i]).stream(), from_->shape(), {"broadcast", {}, location_})));
            all.push_back({nullptr, made.back()->memory()});
        }
        detail::submit_collective(context.on(among_.devices()[0]).stream(), among_,
                                  {.name = "broadcast",
                                   .kind = detail::collective_kind::broadcast,
                                   .type = detail::collective_type_of<T>(),
                                   .root = root_,
                                   .count = from_->size()},
                                  all, location_);
        return made;
    }
    work_estimate estimate() const { return {1, among_.size() * from_->size_bytes()}; }

private:
    communicator among_;
    shared_tensor<T> from_;
    std::size_t root_;
    source_location location_;
};

template <typename T>
requires detail::is_collective_element<T>
auto all_reduce(communicator among, reduce_op how, std::vector<tensor<T>> parts,
                source_location location = source_location::current()) {
    return all_reduce_operation<T>(std::move(among), how, std::move(parts), location);
}
// One command. Its output: for each rank a new tensor with the rows of all parts, in the order of the ranks. Costs one
// command, and a new tensor for each rank.
template <typename T>
requires detail::is_collective_element<T>
auto all_gather(communicator among, std::vector<tensor<T>> parts,
                source_location location = source_location::current()) {
    return all_gather_operation<T>(std::move(among), std::move(parts), location);
}
// One command. Its output: for each rank a new tensor with its block of rows of the sum (or maximum, or minimum) of all
// parts. Costs one command, and a new tensor for each rank.
template <typename T>
requires detail::is_collective_element<T>
auto reduce_scatter(communicator among, reduce_op how, std::vector<tensor<T>> parts,
                    source_location location = source_location::current()) {
    return reduce_scatter_operation<T>(std::move(among), how, std::move(parts), location);
}
// Throws errc::invalid_argument from this call when the tensor is on no rank's device. Costs one command, and a new
// tensor for each other rank.
template <typename T>
requires detail::is_collective_element<T>
auto broadcast(communicator among, shared_tensor<T> from, source_location location = source_location::current()) {
    return broadcast_operation<T>(std::move(among), std::move(from), location);
}

}  // namespace sluice
