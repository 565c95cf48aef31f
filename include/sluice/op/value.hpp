// SPDX-License-Identifier: Apache-2.0
// value: an operation whose output is known already. It submits no command and allocates nothing: it costs
// moves of the output.
//
//     value(std::move(tensor)).and_then(...)
//     value(a, b)                                // two outputs
#pragma once

#include "sluice/op/detail/single_use.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

template <typename T>
class value_operation : public operation_base<value_operation<T>> {
public:
    using output = T;

    explicit value_operation(T contents) : contents_(std::move(contents)) {}

    output submit(execution_context&) && {
        once_.use("value");
        return std::move(contents_);
    }
    work_estimate estimate() const { return {}; }

private:
    T contents_;
    detail::single_use once_;
};

template <typename T>
auto value(T&& contents) {
    return value_operation<std::decay_t<T>>(std::forward<T>(contents));
}

// None, or several values: they arrive as separate arguments.
template <typename... Ts>
requires(sizeof...(Ts) != 1)
auto value(Ts&&... contents) {
    using outputs = std::tuple<std::decay_t<Ts>...>;
    return value_operation<outputs>(outputs(std::forward<Ts>(contents)...));
}

}  // namespace sluice
