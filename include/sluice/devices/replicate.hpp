// replicate: one tensor, readable on each device of a set: weights.
//
//     auto weights = sync(upload(values, {64, 64}).and_then(replicate(all)), pool);     // a shared_tensor a device
//
// The output has one shared tensor for each device, in the set's order; a device that has it already, and one that is
// in the set twice, gets no second copy. Copies go from device to device, each one that has it giving it on: the number
// of rounds is the logarithm of the number of devices. For large tensors on several GPUs, broadcast (collectives.hpp)
// is as fast as the links are.
#pragma once

#include <vector>

#include "sluice/devices/copy_to.hpp"
#include "sluice/devices/device_set.hpp"

namespace sluice {

namespace detail {
// Who gives it to whom, such that each giver comes earlier: pairs of numbers in the set. `has`: who has it.
struct hand_down {
    std::size_t from, to;
};
std::vector<hand_down> hand_down_order(std::vector<bool> has);
}  // namespace detail

template <typename T>
class replicate_operation : public operation_base<replicate_operation<T>> {
public:
    using output = std::vector<shared_tensor<T>>;

    replicate_operation(device_set devices, shared_tensor<T> from, const source_location& where)
        : devices_(std::move(devices)), from_(std::move(from)), where_(where) {}

    output submit(execution_context& context) && {
        if (from_->memory() == nullptr) return output(devices_.size(), from_);
        const device& home = from_->memory()->owner();
        const std::vector<device*>& distinct = devices_.distinct();
        output have(distinct.size(), from_);
        std::vector<bool> has(distinct.size());
        for (std::size_t i = 0; i < distinct.size(); ++i) has[i] = distinct[i] == &home;
        const auto give = [&](std::size_t to, const shared_tensor<T>& from) {
            have[to] = shared_tensor<T>(detail::copy_here(context.on(*distinct[to]), *from, where_));
        };
        if (!devices_.contains(home)) {
            give(0, from_);
            has[0] = true;
        }
        for (const detail::hand_down& each : detail::hand_down_order(std::move(has))) give(each.to, have[each.from]);
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
    source_location where_;
};

template <typename T>
auto replicate(device_set devices, shared_tensor<T> from, source_location where = source_location::current()) {
    return replicate_operation<T>(std::move(devices), std::move(from), where);
}
template <typename T>
auto replicate(device_set devices, tensor<T> from, source_location where = source_location::current()) {
    return replicate_operation<T>(std::move(devices), shared(std::move(from)), where);
}

// What and_then(replicate(...)) calls with the tensor.
class replicate_function {
public:
    replicate_function(device_set devices, const source_location& where)
        : devices_(std::move(devices)), where_(where) {}

    template <typename Tensor>
    auto operator()(Tensor from) const {
        return replicate(devices_, std::move(from), where_);
    }

private:
    device_set devices_;
    source_location where_;
};
inline auto replicate(device_set devices, source_location where = source_location::current()) {
    return replicate_function(std::move(devices), where);
}

}  // namespace sluice
