#include "sluice/runtime/execution_context.hpp"

#include "sluice/op/zip.hpp"

namespace sluice {

execution_context& execution_context::branch() {
    if (policy_ == nullptr) return *this;
    sluice::stream& other = policy_->next();
    if (&other == &stream_) return *this;
    branches_.push_back(std::unique_ptr<execution_context>(new execution_context(other, policy_)));
    return *branches_.back();
}

void execution_context::seal() noexcept {
    upto_ = stream_.issued();
    for (const auto& each : branches_) each->seal();
}

void execution_context::await_completion(std::optional<wait_mode> mode) const {
    stream_.await(upto_, mode.value_or(device().default_wait_mode()));
    for (const auto& each : branches_) each->await_completion(mode);
}

void execution_context::await(std::optional<wait_mode> mode) {
    await_completion(mode);
    rethrow_failure();
}

void execution_context::rethrow_failure() {
    stream_.rethrow_failure(before_, upto_, submitter_);
    for (const auto& each : branches_) each->rethrow_failure();
}

execution_context& detail::branch_of(execution_context& context) { return context.branch(); }

}  // namespace sluice
