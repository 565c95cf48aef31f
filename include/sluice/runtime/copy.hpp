// SPDX-License-Identifier: Apache-2.0
// copy: a second tensor with the same contents, on the same device.
//
// copy(tensor) has two outputs, the original and the copy; copy(shared_tensor) has one, the copy. `copy` is a function
// object, so and_then(copy) works. It costs an allocation from the pool and one command.
#pragma once

#include "sluice/runtime/transfer.hpp"

namespace sluice {

namespace detail {
template <typename T>
tensor<T> copy_on(execution_context& context, const tensor<T>& from) {
    const command_info info{"copy"};
    require_held(from, {info.name, context.device().name(), info.location});
    tensor<T> made(context.stream(), from.shape(), info);
    if (from.size() != 0) {
        copy_bytes(context.stream(), info, *made.memory(), *from.memory(), from.size_bytes(),
                   copy_direction::device_to_device);
    }
    return made;
}
}  // namespace detail

// The operation that copy returns.
template <typename T, typename Source>
class copy_operation : public operation_base<copy_operation<T, Source>> {
    static constexpr bool is_shared = std::is_same_v<Source, shared_tensor<T>>;

public:
    using output = std::conditional_t<is_shared, tensor<T>, std::tuple<tensor<T>, tensor<T>>>;

    explicit copy_operation(Source from) : from_(std::move(from)) {}

    output submit(execution_context& context) && {
        if constexpr (is_shared) {
            return detail::copy_on(context, *from_);
        } else {
            auto made = detail::copy_on(context, from_);
            return {std::move(from_), std::move(made)};
        }
    }
    work_estimate estimate() const { return {.commands = 1}; }

private:
    Source from_;
};

// Of a tensor: the operation has two outputs, the original and the copy. Of a shared tensor: one, the copy. It costs an
// allocation from the pool and one command.
struct copy_function {
    template <typename T>
    auto operator()(tensor<T> from) const {
        return copy_operation<T, tensor<T>>(std::move(from));
    }
    template <typename T>
    auto operator()(shared_tensor<T> from) const {
        return copy_operation<T, shared_tensor<T>>(std::move(from));
    }
};
inline constexpr copy_function copy{};

}  // namespace sluice
