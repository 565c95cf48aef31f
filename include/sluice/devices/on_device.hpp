// SPDX-License-Identifier: Apache-2.0
// on_device: runs a part of an operation on another device, on a stream of the policy (round_robin_devices,
// least_loaded_device). on_each: runs one part on each device of a set.
//
//     zip(on_device(first, forward(x)), on_device(second, forward(y)))
//     on_each(all, [=](std::size_t i) { return networks[i].forward(batches[i]); })     // a vector of outputs, in order
//
// Costs O(parts) on the host; each part on another device allocates a context. The parts run concurrently. Waits and
// failures are those of the whole operation. The results of a part live on its device: a command of another device that
// uses them is refused, except copy_to and collectives, which are ordered after the part. Throws at submission:
// errc::invalid_argument when the policy has no stream of the device, and errc::graph_refused while a graph of another
// device is recorded.
#pragma once

#include <utility>
#include <vector>

#include "sluice/devices/device_set.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice {

template <operation Op>
class on_device_operation : public operation_base<on_device_operation<Op>> {
    static_assert(!is_host_driven<Op>,
                  "on_device: apply or_else, retry, timeout and stop_when outside, to the operation that is spawned");

public:
    using output = output_of<Op>;

    on_device_operation(device& target, Op what) : target_(target), what_(std::move(what)) {}

    output submit(execution_context& context) && { return std::move(what_).submit(context.on(target_)); }
    work_estimate estimate() const { return what_.estimate(); }

private:
    device& target_;
    Op what_;
};

template <operation Op>
auto on_device(device& target, Op what) {
    return on_device_operation<Op>(target, std::move(what));
}

template <typename Function>
class on_each_operation : public operation_base<on_each_operation<Function>> {
    using part = std::invoke_result_t<Function&, std::size_t>;
    static_assert(operation<part>, "on_each: the function must take a number and return an operation");
    static_assert(!is_host_driven<part>,
                  "on_each: apply or_else, retry, timeout and stop_when outside, to the operation that is spawned");

public:
    using output = std::vector<output_of<part>>;

    on_each_operation(device_set devices, Function make) : devices_(std::move(devices)), make_(std::move(make)) {}

    output submit(execution_context& context) && {
        output made;
        made.reserve(devices_.size());
        bool home_is_taken = false;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            execution_context& there = context.on(devices_[i]);
            const bool is_second = &there == &context && std::exchange(home_is_taken, true);
            made.push_back(make_(i).submit(is_second ? context.branch() : there));
        }
        return made;
    }
    work_estimate estimate() const { return {}; }

private:
    device_set devices_;
    Function make_;
};

// Calls `make` with 0, 1, ... on the submitting thread; it returns the operation for the device of that number. Costs
// one call of `make` for each device; each part on another device allocates a context.
template <typename Function>
auto on_each(device_set devices, Function make) {
    return on_each_operation<Function>(std::move(devices), std::move(make));
}

}  // namespace sluice
