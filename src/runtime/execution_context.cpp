#include "sluice/runtime/execution_context.hpp"

#include "sluice/op/zip.hpp"

namespace sluice {

execution_context& execution_context::branch() {
    if (policy_ == nullptr) return *this;
    command_queue& other = policy_->next().queue();
    // A policy over several devices may have moved on to another one; a branch stays where its data is.
    if (&other == &stream_.queue() || &other.owner() != &device()) return *this;
    branches_.push_back(std::unique_ptr<execution_context>(new execution_context(other, policy_, submission_)));
    return *branches_.back();
}

execution_context& detail::branch_of(execution_context& context) { return context.branch(); }

}  // namespace sluice
