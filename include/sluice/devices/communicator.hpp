// SPDX-License-Identifier: Apache-2.0
// communicator: the devices of a set as ranks that exchange data through the collectives of collectives.hpp. Rank i is
// the set's device i.
//
//     const communicator all(device_set::of(machine));
//     on_each(all.devices(), gradients).and_then([=](auto g) { return all_reduce(all, reduce_op::sum, std::move(g)); })
//
// GPUs exchange data through NCCL, CPU devices through the memory that they share. NCCL is opened for the first
// communicator of a set of GPUs, which blocks for about a second. Later communicators of the same set share it, and the
// runtime keeps it until it is destroyed.
//
// Cheap to copy; must not outlive the runtime. Thread safety: collectives of one communicator may be submitted by any
// thread; they run one after the other, in the order of submission.
//
// One call submits a collective for all ranks, so no rank can be missing, and there is no abandon() as process_group
// has. The limit of this: if NCCL itself fails in that call, the submission throws device_error, and a part of the
// ranks may have begun. These GPUs then wait for ever, and so does the runtime's destructor: end the process. Only
// ncclCommAbort could end them, and it blocks as long as a graph with a collective of the communicator lives.
#pragma once

#include "sluice/devices/device_set.hpp"

namespace sluice {

namespace detail {
class collective_group;
}

class communicator {
public:
    // Throws errc::unsupported on GPUs when NCCL is not installed, and for a GPU that is in the set twice; device_error
    // when NCCL fails. Costs O(devices * devices); on GPUs, at the first use of the set, also what NCCL takes to make
    // its communicators.
    explicit communicator(device_set devices);

    // The devices of the ranks: rank i is device i of the set.
    const device_set& devices() const noexcept { return devices_; }
    std::size_t size() const noexcept { return devices_.size(); }  // the number of ranks

    // For collectives; null on CPU devices.
    detail::collective_group* group() const noexcept { return group_; }

private:
    device_set devices_;
    detail::collective_group* group_ = nullptr;  // the first device keeps it
};

// How elements at the same position are combined. Floating-point sums are computed in the order of the ranks on CPU
// devices, and in NCCL's order on GPUs.
enum class reduce_op : unsigned char { sum, max, min };

}  // namespace sluice
