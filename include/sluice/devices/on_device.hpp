// on_device: a part of an operation on another device, by a stream of the policy (per_device, least_busy_device).
// on_each: one part for each device of a set.
//
//     zip(on_device(first, forward(x)), on_device(second, forward(y)))
//     on_each(all, [=](std::size_t i) { return networks[i].forward(batches[i]); })     // a vector of outputs, in order
//
// The parts run side by side. What is waited for, and who is told of failures, is the whole operation's. What a part
// made lives on its device: a command elsewhere that uses it is refused, but for copy_to and collectives, which are
// ordered behind it. Throws, when it is submitted, errc::invalid_argument where the policy has no stream of the device,
// and errc::graph_refused for another device than the graph's while one is recorded.
#pragma once

#include <utility>
#include <vector>

#include "sluice/devices/device_set.hpp"
#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice {

template <operation Op>
class on_device_operation : public operation_base<on_device_operation<Op>> {
    static_assert(!is_staged<Op>,
                  "on_device: what recovers, tries again or gives up must be outside, where it is spawned");

public:
    using output = output_of<Op>;

    on_device_operation(device& where, Op what) : where_(where), what_(std::move(what)) {}

    output submit(execution_context& context) && { return std::move(what_).submit(context.on(where_)); }
    work_estimate estimate() const { return what_.estimate(); }

private:
    device& where_;
    Op what_;
};

template <operation Op>
auto on_device(device& where, Op what) {
    return on_device_operation<Op>(where, std::move(what));
}

template <typename Function>
class on_each_operation : public operation_base<on_each_operation<Function>> {
    using part = std::invoke_result_t<Function&, std::size_t>;
    static_assert(operation<part>, "on_each: the function must take a number and return an operation");
    static_assert(!is_staged<part>,
                  "on_each: what recovers, tries again or gives up must be outside, where it is spawned");

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

// `make` is called with 0, 1, ... on the submitting thread, and gives the operation for the device of that number.
template <typename Function>
auto on_each(device_set devices, Function make) {
    return on_each_operation<Function>(std::move(devices), std::move(make));
}

}  // namespace sluice
