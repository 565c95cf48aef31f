// SPDX-License-Identifier: Apache-2.0
// any_operation<T>: an operation whose type is forgotten, except for its output. For containers, for functions
// in .cpp files, and for chains whose length is known only at run time:
//
//     any_operation<tensor<float>> chain = upload(x, {64});
//     for (const auto& layer : layers) chain = std::move(chain).and_then(layer);
//
// Costs one allocation and one virtual call. A chain may be as long as memory allows: submitting and dropping it take a
// stack of constant depth, through and_then, transform, named, zip, share and unzip (see chain.hpp). What an
// any_operation holds is destroyed with it; but while another any_operation is being destroyed on the same thread,
// right after that one.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "sluice/op/detail/chain.hpp"
#include "sluice/op/detail/single_use.hpp"
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
        static_assert(!is_host_driven<Op>,
                      "any_operation: an operation that recovers, tries again or gives up must be outside, where it is "
                      "spawned");
    }
    any_operation(any_operation&&) noexcept = default;
    any_operation& operator=(any_operation&& other) noexcept {
        detail::chain_link::drop(std::exchange(erased_, std::move(other.erased_)));
        return *this;
    }
    any_operation(const any_operation&) = delete;  // an operation runs once: std::move it, or share(...) it
    any_operation& operator=(const any_operation&) = delete;
    ~any_operation() { detail::chain_link::drop(std::move(erased_)); }

    output submit(execution_context& context) && {
        if (erased_ == nullptr) detail::refuse_used_operation("any_operation");
        const any_operation consumed = std::move(*this);  // whatever happens
        interface& op = *consumed.erased_;
        if (op.kept) return op.take();
        for (execution_context* target = &context; detail::chain_link* const inner = op.next_link(target);
             target = &context) {
            inner->submit_chain(*target);
        }
        return op.submit(context);
    }
    work_estimate estimate() const { return erased_ != nullptr ? erased_->estimate : work_estimate{}; }

    detail::chain_link* next_link(execution_context*&) noexcept {
        return erased_ != nullptr && !erased_->kept ? erased_.get() : nullptr;
    }

private:
    struct interface : detail::chain_link {
        explicit interface(const work_estimate& known) : estimate(known) {}
        virtual T submit(execution_context& context) = 0;

        void submit_and_keep(execution_context& context) noexcept override {
            try {
                kept.emplace(result{submit(context), {}});
            } catch (...) {
                keep_failure(std::current_exception());
            }
        }
        void keep_failure(std::exception_ptr failure) noexcept override {
            kept.emplace(result{{}, std::move(failure)});
        }
        T take() {
            if (kept->failure) std::rethrow_exception(kept->failure);
            return std::move(*kept->made);
        }

        // Set when its chain has submitted it.
        struct result {
            std::optional<T> made;
            std::exception_ptr failure;
        };
        std::optional<result> kept;
        const work_estimate estimate;  // computed once: a chain of zips would compute it for each tail of the chain
    };

    template <typename Op>
    struct model final : interface {
        explicit model(Op wrapped) : interface(wrapped.estimate()), op(std::move(wrapped)) {}
        T submit(execution_context& context) override { return std::move(op).submit(context); }
        detail::chain_link* next_link(execution_context*& context) override {
            if constexpr (detail::has_links<Op>) return op.next_link(context);
            return nullptr;
        }
        Op op;
    };

    std::unique_ptr<interface> erased_;
};

}  // namespace sluice
