// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/execution_context.hpp"

#include "sluice/base/error.hpp"

namespace sluice {

execution_context::~execution_context() {
    if (is_whole_) submit_kept();
}

void execution_context::submit_kept() noexcept {
    for (const auto& each : branches_) each->submit_kept();
    stream_.queue().interpreter().submit_kept();
}

execution_context& execution_context::add_branch(command_queue& on) {
    std::unique_ptr<execution_context> made(new execution_context(on, policy_, submission_));
    for (const stream_point& each : after_) made->stream_.order_after(each);
    made->after_ = after_;
    branches_.push_back(std::move(made));
    return *branches_.back();
}

std::size_t execution_context::order_after(const detail::submission& earlier) {
    const std::size_t before = after_.size();
    earlier.for_each_point([&](const stream_point& each) {
        after_.push_back(each);
        stream_.order_after(each);
    });
    return before;
}

execution_context& execution_context::branch() {
    if (policy_ == nullptr) return *this;
    command_queue& other = policy_->next_branch(stream_).queue();
    if (&other == &stream_.queue() || &other.owner() != &device()) return *this;
    return add_branch(other);
}

execution_context& execution_context::on(sluice::device& target) {
    if (&target == &device()) return *this;
    if (stream_.queue().recorder() != nullptr)
        throw error(errc::graph_refused, "a graph is of one device", {"", target.name()});
    if (policy_ == nullptr)
        throw error(
            errc::invalid_argument,
            "there is no policy to take a stream from: submit to one over several devices, as round_robin_devices",
            {"", target.name()});
    return add_branch(policy_->next_on(target).queue());
}

}  // namespace sluice
