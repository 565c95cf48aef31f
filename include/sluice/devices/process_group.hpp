// SPDX-License-Identifier: Apache-2.0
// process_group: a GPU of this process as one rank of a group of processes, on one machine or many, that exchange data
// through NCCL.
//
//     const auto invitation = process_group::invite();           // on one rank, which sends it to the others
//     process_group all(gpu, invitation, {.rank = rank, .size = size});
//     while (!all.is_complete()) check_the_others();             // until all ranks have joined
//     auto sum = sync(all_reduce(all, reduce_op::sum, std::move(mine)), pool);
//
//     all_reduce(all, reduce_op::sum, tensor)   -> the same tensor, with the sum (or max, min) over all ranks
//     broadcast(all, root, tensor)              -> the same tensor, with the contents of rank `root`'s tensor
//
// All ranks must submit the same collectives, of the same size, in the same order. This also holds across groups and
// communicators that share a GPU: one thread must submit all of their collectives. Submitting the first collective
// blocks until all ranks have submitted it. A submitted collective runs on the GPU when all ranks have submitted it, so
// a rank that never submits it keeps the others waiting. When a thread learns of that, it calls abandon(): all waits
// for the other ranks then end.
//
// Elements are float, double, half, bfloat16, int or unsigned. For several GPUs of one process use communicator. Needs
// NCCL 2.14 or later; tried with 2.28.
//
// Errors: errc::unsupported for a CPU device and where NCCL is not installed; errc::invalid_argument for a rank outside
// the group, for a tensor or a stream of another device, and before the group is complete; errc::graph_refused in a
// graph; errc::canceled after abandon(); device_error when NCCL fails, for instance because a rank has ended.
//
// The group must not outlive the runtime; collectives refer to it until they complete. Thread safety: collectives run
// in the order of submission; is_complete and abandon may be called on any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "sluice/devices/collectives.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

namespace detail {
class process_rank;
}

class process_group {
public:
    // What all ranks need to find each other, as bytes: it may be sent over a pipe, a socket or a file.
    using invitation = std::array<std::byte, 128>;
    // Which rank a process is.
    struct place {
        std::size_t rank = 0;  // from 0, below size
        std::size_t size = 1;  // the number of ranks
    };

    // Identifies the GPU within its machine: two ranks of one group must not use the same GPU. Empty for a device that
    // cannot join a group: a CPU device, or a GPU without NCCL. Costs a question to the driver; the first call in the
    // process looks for NCCL.
    static std::string hardware(device& which);

    // Creates the invitation of a new group, for the constructors on all of its ranks. Costs a call of NCCL.
    static invitation invite();

    // Begins to join; does not wait for the other ranks. Costs a call of NCCL, which begins to make a communicator.
    process_group(device& on, const invitation& to, place here, source_location location = source_location::current());
    process_group(process_group&&) noexcept;
    // Abandons the group, and blocks as abandon() does. Destroy it only when the collectives of all ranks have
    // completed, not just this rank's.
    ~process_group();

    // Whether all ranks have joined. Does not block. Costs one question to NCCL until all have joined, and then O(1).
    bool is_complete();
    // Call it when a rank will not join or has been lost. Submitted collectives end, with undefined results. Blocks
    // until earlier work on the GPU has completed; so do not call it from a host call on a stream of the GPU. Costs a
    // call of NCCL, and that wait.
    void abandon() noexcept;

    device& owner() const noexcept { return *on_; }           // the GPU of this rank
    std::size_t rank() const noexcept { return here_.rank; }  // the rank of this process
    std::size_t size() const noexcept { return here_.size; }  // the number of ranks

    // For collectives: submits one command to a stream of the group's device, in place. Costs one command.
    void submit(stream on, const detail::collective_form& form, storage* memory, const source_location& location);

private:
    device* on_;
    place here_;
    std::unique_ptr<detail::process_rank> by_;
};

namespace detail {

template <typename T>
class process_collective_operation : public operation_base<process_collective_operation<T>> {
public:
    using output = tensor<T>;

    process_collective_operation(process_group& among, const collective_form& form, tensor<T> mine,
                                 const source_location& location)
        : among_(&among), form_(form), mine_(std::move(mine)), location_(location) {
        form_.type = collective_type_of<T>();
        form_.count = mine_.size();
    }

    output submit(execution_context& context) && {
        among_->submit(context.on(among_->owner()).stream(), form_, mine_.memory(), location_);
        return std::move(mine_);
    }
    work_estimate estimate() const { return {1, mine_.size_bytes()}; }

private:
    process_group* among_;
    collective_form form_;
    tensor<T> mine_;
    source_location location_;
};

}  // namespace detail

// One command. Its output: the same tensor, with the sum (or maximum, or minimum) over all ranks. It costs no memory:
// the sum is in place.
template <typename T>
requires detail::is_collective_element<T>
auto all_reduce(process_group& among, reduce_op how, tensor<T> mine,
                source_location location = source_location::current()) {
    return detail::process_collective_operation<T>(
        among, {.name = "all_reduce", .kind = detail::collective_kind::all_reduce, .type = {}, .how = how},
        std::move(mine), location);
}
// One command. Its output: the same tensor, with the contents of that of rank `root`. It costs no memory: the contents
// arrive in place.
template <typename T>
requires detail::is_collective_element<T>
auto broadcast(process_group& among, std::size_t root, tensor<T> mine,
               source_location location = source_location::current()) {
    return detail::process_collective_operation<T>(
        among, {.name = "broadcast", .kind = detail::collective_kind::broadcast, .type = {}, .root = root},
        std::move(mine), location);
}

}  // namespace sluice
