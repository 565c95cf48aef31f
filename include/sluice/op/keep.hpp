// SPDX-License-Identifier: Apache-2.0
// keep: holds an object until the device is done with an operation.
//
//     auto table = std::make_shared<const lookup_table>(...);
//     keep(table, launch(look_up{table->data()}, each_of(x), std::move(x)))
//
// The object is anything that can be moved: a std::shared_ptr, or a value that keep then owns. It is released when all
// commands that the operation has submitted are over, also when they fail, the device faults, or the result is dropped.
// In a compiled graph it is released when the last launch of that recording is over and the graph is dropped or
// updated. Until it is submitted, the operation owns the object.
//
// The object is destroyed on the runtime's completion thread, or on the thread that drops a graph; not always before
// the operation's waiter continues. Its destructor may drop tensors and submit work. It must not wait for a device: all
// waiters would wait for it. An exception that leaves a destructor ends the program.
//
// keep submits no command. Outside a graph it costs what one more waiter costs, some microseconds.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/op/operation.hpp"

namespace sluice {

template <operation Source>
class keep_operation : public operation_base<keep_operation<Source>> {
public:
    using output = output_of<Source>;
    static_assert(!is_host_driven<Source>,
                  "keep: keep an object for the parts of an operation that recovers, tries again or gives up");

    keep_operation(std::shared_ptr<const void> object, Source source)
        : object_(std::move(object)), source_(std::move(source)) {}

    output submit(execution_context& context) && {
        if (const auto entered = std::move(scope_)) return std::move(source_).submit(context);
        const detail::keep_scope scope(context, std::move(object_));
        return std::move(source_).submit(context);
    }
    work_estimate estimate() const { return source_.estimate(); }

    detail::chain_link* next_link(execution_context*& context)
    requires detail::has_links<Source>
    {
        if (scope_ == nullptr) scope_ = std::make_unique<detail::keep_scope>(*context, std::move(object_));
        return source_.next_link(context);
    }

private:
    std::shared_ptr<const void> object_;
    Source source_;
    std::unique_ptr<detail::keep_scope> scope_;  // from the first link inside until submit
};

template <typename T, operation Source>
auto keep(std::shared_ptr<T> object, Source source) {
    return keep_operation<Source>(std::move(object), std::move(source));
}
template <typename T, operation Source>
requires(!std::is_lvalue_reference_v<T>)
auto keep(T&& object, Source source) {
    return keep_operation<Source>(std::make_shared<std::remove_cv_t<T>>(std::move(object)), std::move(source));
}

}  // namespace sluice
