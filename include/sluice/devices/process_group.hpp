// process_group: a GPU of this process as one rank among those of other processes, on one machine or many, which
// exchange data by NCCL.
//
//     const auto invitation = process_group::invite();           // on one of them, which tells it the others somehow
//     process_group all(gpu, invitation, {.rank = rank, .size = size});
//     while (!all.is_complete()) look_after_the_others();        // all ranks have to come
//     auto sum = sync(all_reduce(all, reduce_op::sum, std::move(mine)), pool);
//
//     all_reduce(all, reduce_op::sum, tensor)   -> the same tensor, with the sum (or max, min) of all ranks'
//     broadcast(all, root, tensor)              -> the same tensor, with what rank `root`'s held
//
// Every rank makes the same collectives, of the same size, in the same order; also of different groups and
// communicators that share a GPU, which one thread submits then. Submitting the first one blocks until all have; what
// was submitted runs on the GPU when all others' has come, so a rank that never makes it keeps the others waiting. Who
// learns of that gives the group up, from another thread: what waits for the others then ends.
//
// Elements are float, double, half, bfloat16, int or unsigned. The GPUs of one process among themselves: communicator.
// NCCL 2.14 or later; 2.28 was tried.
//
// Errors: errc::unsupported for a CPU device and where there is no NCCL; errc::invalid_argument for a rank outside the
// group, for a tensor or a stream of another device, and before the group is complete; errc::graph_refused in a graph;
// errc::canceled once it was given up; device_error when NCCL fails, for instance because a rank is no more.
//
// The group must not outlive the runtime; collectives refer to it until they are over. Thread safety: collectives run
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
    using invitation = std::array<std::byte, 128>;
    struct place {
        std::size_t rank = 0;
        std::size_t size = 1;
    };

    // Which GPU of its machine a device is: two of one group must not be the same. Empty for what can be in none: a CPU
    // device, and a GPU without NCCL.
    static std::string hardware(device& which);

    // A new group's, for the constructor on all of its ranks.
    static invitation invite();

    // Begins to join, and does not wait for the others.
    process_group(device& on, const invitation& to, place here, source_location where = source_location::current());
    process_group(process_group&&) noexcept;
    // Gives it up: to be destroyed when the collectives of all ranks are over, not just of this one.
    ~process_group();

    // Whether all ranks have joined. Does not block.
    bool is_complete();
    // Nobody comes any more, or somebody was lost: what was submitted ends, with whatever it did. Blocks for as long as
    // what was submitted before takes; so not for a host call on a stream of the GPU.
    void abandon() noexcept;

    device& owner() const noexcept { return *on_; }
    std::size_t rank() const noexcept { return here_.rank; }
    std::size_t size() const noexcept { return here_.size; }

    // For collectives: one command on a stream of the group's device, in place.
    void submit(stream& on, const detail::collective_form& form, storage* memory, const source_location& where);

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
                                 const source_location& where)
        : among_(&among), form_(form), mine_(std::move(mine)), where_(where) {
        form_.type = collective_type_of<T>();
        form_.count = mine_.size();
    }

    output submit(execution_context& context) && {
        among_->submit(context.on(among_->owner()).stream(), form_, mine_.memory(), where_);
        return std::move(mine_);
    }
    work_estimate estimate() const { return {1, mine_.size_bytes()}; }

private:
    process_group* among_;
    collective_form form_;
    tensor<T> mine_;
    source_location where_;
};

}  // namespace detail

template <typename T>
requires detail::is_collective_element<T>
auto all_reduce(process_group& among, reduce_op how, tensor<T> mine,
                source_location where = source_location::current()) {
    return detail::process_collective_operation<T>(
        among, {.name = "all_reduce", .kind = detail::collective_kind::all_reduce, .type = {}, .how = how},
        std::move(mine), where);
}
template <typename T>
requires detail::is_collective_element<T>
auto broadcast(process_group& among, std::size_t root, tensor<T> mine,
               source_location where = source_location::current()) {
    return detail::process_collective_operation<T>(
        among, {.name = "broadcast", .kind = detail::collective_kind::broadcast, .type = {}, .root = root},
        std::move(mine), where);
}

}  // namespace sluice
