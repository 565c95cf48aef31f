// SPDX-License-Identifier: Apache-2.0
#include "sluice/op/detail/runtime_hooks.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

order_scope::order_scope(execution_context& context) : context_(context), first_(&context) {
    if (const command_recorder* const recorder = context.stream().queue().recorder()) {
        mark_ = recorder->recorded();
        return;
    }
    // A submission of its own, so that the second part comes after the first one alone, not after all before it.
    own_.reset(new execution_context(context.sibling()));
    own_->submission()->rename(context.submission()->name());
    own_->inherit_order(context);
    first_ = own_.get();
}

void order_scope::end_first() {
    if (own_ == nullptr) {
        context_.stream().queue().recorder()->begin_after(mark_);
    } else {
        own_->submission()->rename(nullptr);
        context_.join(own_->submission());
        mark_ = context_.order_after(*own_->submission());
    }
    is_ordering_ = true;
}

order_scope::~order_scope() {
    if (!is_ordering_) {
        if (own_ == nullptr) return;
        // The submission of the first part threw: waiters wait for what it has submitted.
        try {
            context_.join(own_->submission());
        } catch (...) {  // short of memory: wait here instead
            try {
                own_->submission()->await_completion({});
            } catch (...) {  // NOLINT(bugprone-empty-catch): the device has faulted, so nothing runs
            }
        }
        return;
    }
    if (own_ == nullptr) {
        context_.stream().queue().recorder()->end_after();
    } else {
        context_.undo_order(mark_);
    }
}

}  // namespace sluice::detail
