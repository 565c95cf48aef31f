// SPDX-License-Identifier: Apache-2.0
// copy_to: copies a tensor to another device of the same kind, without the host.
//
//     copy_to(second, tensor)          -> tensor<T> on `second`; the original is released after the copy. A tensor that
//                                         is already there is returned as it is
//     copy_to(second, shared_tensor)   -> tensor<T> on `second`, a copy also when it is the same device
//     and_then(copy_to(second))        -> the same in a chain
//
// Costs an allocation from the destination's pool and one copy command. Between GPUs that can reach each other's memory
// the copy is direct; otherwise the driver stages it through the host. It runs on a stream of the destination, taken
// from the policy, after the commands that wrote the original, on any device. Throws at submission: errc::unsupported
// between devices of different kinds (use download and upload), and what on_device throws.
#pragma once

#include <utility>

#include "sluice/runtime/copy.hpp"

namespace sluice {

namespace detail {
// Copies bytes between storages of one device or two, at the given offsets, on a stream of the destination's device.
void copy_across(stream on, const command_info& info, storage& to, std::size_t to_offset, storage& from,
                 std::size_t from_offset, std::size_t bytes);

template <typename T>
tensor<T> copy_here(execution_context& here, const tensor<T>& from, const source_location& location) {
    const command_info info{"copy to", {}, location};
    tensor<T> made(here.stream(), from.shape(), info);
    if (from.size() != 0) copy_across(here.stream(), info, *made.memory(), 0, *from.memory(), 0, from.size_bytes());
    return made;
}
}  // namespace detail

template <typename T, typename Source>
class copy_to_operation : public operation_base<copy_to_operation<T, Source>> {
public:
    using output = tensor<T>;

    copy_to_operation(device& to, Source from, const source_location& location)
        : to_(to), from_(std::move(from)), location_(location) {}

    output submit(execution_context& context) && {
        if constexpr (std::is_same_v<Source, tensor<T>>) {
            if (from_.memory() == nullptr || &from_.memory()->owner() == &to_) return std::move(from_);
        }
        return detail::copy_here(context.on(to_), detail::tensor_in(from_), location_);
    }
    work_estimate estimate() const { return {1, detail::tensor_in(from_).size_bytes()}; }

private:
    device& to_;
    Source from_;
    source_location location_;
};

template <typename T>
auto copy_to(device& to, tensor<T> from, source_location location = source_location::current()) {
    return copy_to_operation<T, tensor<T>>(to, std::move(from), location);
}
template <typename T>
auto copy_to(device& to, shared_tensor<T> from, source_location location = source_location::current()) {
    return copy_to_operation<T, shared_tensor<T>>(to, std::move(from), location);
}

// The function object for and_then(copy_to(...)). It costs what copy_to costs.
class copy_to_function {
public:
    // Called by copy_to. Costs O(1).
    copy_to_function(device& to, const source_location& location) : to_(to), location_(location) {}

    template <typename T>
    auto operator()(tensor<T> from) const {
        return copy_to(to_, std::move(from), location_);
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return copy_to(to_, std::move(from), location_);
    }

private:
    device& to_;
    source_location location_;
};
inline auto copy_to(device& to, source_location location = source_location::current()) {
    return copy_to_function(to, location);
}

}  // namespace sluice
