// SPDX-License-Identifier: Apache-2.0
#include "sluice/op/detail/runtime_hooks.hpp"

#include "sluice/base/error.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::detail {

void refuse_used_operation(const char* operation) {
    throw error(errc::invalid_argument,
                "this operation was moved from or has run already; an operation runs once: create another one, or "
                "share it",
                {operation});
}

void refuse_moved_value(const char* what) {
    throw error(errc::invalid_argument, std::string(what) + " was used after it had been moved from");
}

execution_context& branch_of(execution_context& context) { return context.branch(); }

name_scope::name_scope(execution_context& context, const std::string& name) noexcept
    : context_(context), outer_(context.submission()->rename(&name)) {
    context_.stream().queue().interpreter().begin_range(name.c_str());
}

name_scope::~name_scope() {
    context_.stream().queue().interpreter().end_range();
    context_.submission()->rename(outer_);
}

void shared_submission::open(execution_context& caller) {
    own_.reset(new execution_context(caller.sibling()));
    own_->inherit_order(caller);
    own_->submission()->rename(caller.submission()->name());  // until it is closed
    submission_ = std::make_shared<const submission_ref>(own_->submission());
}

execution_context& shared_submission::context() const noexcept { return *own_; }

void shared_submission::close() {
    own_->submission()->rename(nullptr);
    own_->submission()->seal();
    own_.reset();
}

void shared_submission::drop() noexcept {
    if (own_ != nullptr) own_->submission()->rename(nullptr);
    own_.reset();
}

void shared_submission::join(execution_context& context) const {
    if (submission_ != nullptr) context.join(*static_cast<const submission_ref*>(submission_.get()));
}

}  // namespace sluice::detail
