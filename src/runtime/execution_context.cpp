// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/execution_context.hpp"

#include "sluice/base/error.hpp"

namespace sluice {

execution_context& execution_context::branch() {
    if (policy_ == nullptr) return *this;
    command_queue& other = policy_->next_branch(stream_).queue();
    if (&other == &stream_.queue() || &other.owner() != &device()) return *this;
    branches_.push_back(std::unique_ptr<execution_context>(new execution_context(other, policy_, submission_)));
    return *branches_.back();
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
    command_queue& there = policy_->next_on(target).queue();
    branches_.push_back(std::unique_ptr<execution_context>(new execution_context(there, policy_, submission_)));
    return *branches_.back();
}

}  // namespace sluice
