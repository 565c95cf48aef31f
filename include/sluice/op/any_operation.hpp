// any_operation<T>: an operation whose type is forgotten, all but its output. For containers, for functions
// in .cpp files, and for chains whose length is known only at run time. Costs one allocation and one virtual
// call.
#pragma once

#include <memory>

#include "sluice/op/operation.hpp"

namespace sluice {

template <typename T>
class any_operation : public operation_base<any_operation<T>> {
public:
    using output = T;

    template <operation Op>
    requires(!std::same_as<std::remove_cvref_t<Op>, any_operation> && std::same_as<output_of<Op>, T>)
    any_operation(Op op)  // NOLINT(google-explicit-constructor): the conversion is the point
        : erased_(std::make_unique<model<Op>>(std::move(op))) {
        static_assert(!is_staged<Op>,
                      "any_operation: what recovers, tries again or gives up must be outside, where it is spawned");
    }

    output submit(execution_context& context) && {
        const auto erased = std::move(erased_);  // consumed, whatever happens
        return erased->submit(context);
    }
    work_estimate estimate() const { return erased_->estimate(); }

private:
    struct interface {
        interface() = default;
        interface(const interface&) = delete;  // owned through a pointer only
        interface& operator=(const interface&) = delete;
        virtual ~interface() = default;
        virtual T submit(execution_context& context) = 0;
        virtual work_estimate estimate() const = 0;
    };

    template <typename Op>
    struct model final : interface {
        explicit model(Op wrapped) : op(std::move(wrapped)) {}
        T submit(execution_context& context) override { return std::move(op).submit(context); }
        work_estimate estimate() const override { return op.estimate(); }
        Op op;
    };

    std::unique_ptr<interface> erased_;
};

}  // namespace sluice
