// SPDX-License-Identifier: Apache-2.0
// replicate: makes one tensor readable on each device of a set, for example weights.
//
//     auto weights = sync(upload(values, {64, 64}).and_then(replicate(all)), pool);     // one shared_tensor per device
//
// The output has one shared tensor for each device, in the set's order. A device that has it already, or that is in the
// set twice, gets no second copy. Costs one allocation and one copy for each other device. Copies go from device to
// device, and each device that has the tensor passes it on, so the number of rounds is the logarithm of the number of
// devices. For large tensors on several GPUs, broadcast (collectives.hpp) uses the full speed of the links.
#pragma once

#include <vector>

#include "sluice/devices/copy_to.hpp"
#include "sluice/devices/device_set.hpp"

namespace sluice {

namespace detail {
// Copies between devices, given by their numbers in the set, so that each source has the tensor before its copy. `has`:
// whether each device has the tensor already.
struct relay_copy {
    std::size_t from, to;
};
std::vector<relay_copy> relay_order(std::vector<bool> has);
}  // namespace detail

template <typename T>
class replicate_operation : public operation_base<replicate_operation<T>> {
public:
    using output = std::vector<shared_tensor<T>>;

    replicate_operation(device_set devices, shared_tensor<T> from, const source_location& location)
        : devices_(std::move(devices)), from_(std::move(from)), location_(location) {}

    output submit(execution_context& context) && {
        if (from_->memory() == nullptr) return output(devices_.size(), from_);
        const device& home = from_->memory()->owner();
        const std::vector<device*>& distinct = devices_.distinct();
        output have(distinct.size(), from_);
        std::vector<bool> has(distinct.size());
        for (std::size_t i = 0; i < distinct.size(); ++i) has[i] = distinct[i] == &home;
        const auto give = [&](std::size_t to, const shared_tensor<T>& from) {
            have[to] = shared_tensor<T>(detail::copy_here(context.on(*distinct[to]), *from, location_));
        };
        if (!devices_.contains(home)) {
            give(0, from_);
            has[0] = true;
        }
        for (const detail::relay_copy& each : detail::relay_order(std::move(has))) give(each.to, have[each.from]);
        output made;
        made.reserve(devices_.size());
        for (device* const each : devices_) {
            for (std::size_t i = 0; i < distinct.size(); ++i) {
                if (distinct[i] == each) made.push_back(have[i]);
            }
        }
        return made;
    }
    work_estimate estimate() const { return {devices_.size(), devices_.size() * from_->size_bytes()}; }

private:
    device_set devices_;
    shared_tensor<T> from_;
    source_location location_;
};

template <typename T>
auto replicate(device_set devices, shared_tensor<T> from, source_location location = source_location::current()) {
    return replicate_operation<T>(std::move(devices), std::move(from), location);
}
template <typename T>
auto replicate(device_set devices, tensor<T> from, source_location location = source_location::current()) {
    return replicate_operation<T>(std::move(devices), shared(std::move(from)), location);
}

// The function object for and_then(replicate(...)). It costs what replicate costs.
class replicate_function {
public:
    // Called by replicate. Costs moves of its arguments.
    replicate_function(device_set devices, const source_location& location)
        : devices_(std::move(devices)), location_(location) {}

    template <typename Tensor>
    auto operator()(Tensor from) const {
        return replicate(devices_, std::move(from), location_);
    }

private:
    device_set devices_;
    source_location location_;
};
inline auto replicate(device_set devices, source_location location = source_location::current()) {
    return replicate_function(std::move(devices), location);
}

}  // namespace sluice
