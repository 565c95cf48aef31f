// SPDX-License-Identifier: Apache-2.0
// execution_context: the context that an operation is submitted to. It has a stream, the stream's device and memory,
// and a way to get further streams for independent branches. Passed by reference down the operation; lives
// until the operation has been submitted. Afterwards waiters wait for its submission.
//
// Thread safety: none; one thread submits one operation.
//
// Errors: what takes a further stream, or orders one after another, throws what the policy throws, and the first cause
// when a device has faulted.
#pragma once

#include <memory>
#include <vector>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/detail/submission.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

class execution_context {
public:
    // On the policy's next stream; branches take further ones. Costs one allocation, for the submission.
    explicit execution_context(scheduling_policy& policy) : execution_context(policy.next().queue(), &policy, {}) {}
    // On this stream; so are branches. With the stream of another context, as part of that context's submission. Costs
    // at most one allocation, for a submission.
    explicit execution_context(sluice::stream on)
        : execution_context(on.queue(), nullptr, detail::submission_ref(on.submission())) {}
    // On this stream; branches take further ones of the policy. Costs one allocation, for the submission.
    execution_context(sluice::stream on, scheduling_policy* policy) : execution_context(on.queue(), policy, {}) {}
    execution_context(const execution_context&) = delete;  // operations refer to it while they submit
    execution_context& operator=(const execution_context&) = delete;
    // The operation has been submitted: streams that keep commands until then submit them.
    ~execution_context();

    // The stream to submit to, on behalf of this operation.
    sluice::stream stream() noexcept { return stream_; }
    sluice::device& device() const noexcept { return stream_.owner(); }  // the device of the stream; costs O(1)
    // What picks further streams; null on a single stream.
    scheduling_policy* policy() const noexcept { return policy_; }

    // A context for an independent branch, on another stream of the device if the policy has one. Owned by this
    // context, and part of its submission. Costs one allocation, and the choice of the policy.
    execution_context& branch();
    // A context on that device, with a stream of the policy; this one when it is this device. Likewise owned by this
    // context, and part of its submission. Throws errc::invalid_argument when the policy has no stream there;
    // errc::graph_refused for another device while a graph is recorded. Costs O(1) for this device; otherwise one
    // allocation, and what the policy's next_on costs.
    execution_context& on(sluice::device& target);

    // What waiters wait for, once everything has been submitted.
    const detail::submission_ref& submission() const& noexcept { return submission_; }
    // The same, of a context that is not used any more. Costs O(1).
    detail::submission_ref submission() && noexcept { return std::move(submission_); }
    // For another operation on the same stream, with its own submission. Costs one allocation, for the submission.
    execution_context sibling() const { return execution_context(stream_.queue(), policy_, {}); }

    // What is submitted here also waits for that submission and shares its failures. Costs O(outcomes + streams) of
    // that submission.
    void join(const detail::submission_ref& other) { submission_->join(other); }

    // What is submitted from now on, to branches too, runs after all commands of that submission. Returns how many
    // points it was after before: undo_order(that) ends it for later branches. Costs one order_after of the stream for
    // each stream of that submission.
    std::size_t order_after(const detail::submission& earlier);
    // `points`: what order_after returned. Costs O(points that end).
    void undo_order(std::size_t points) noexcept { after_.resize(points); }
    // Branches of this context come after what those of `other` come after. Costs a copy of these points.
    void inherit_order(const execution_context& other) { after_ = other.after_; }

private:
    execution_context(command_queue& on, scheduling_policy* policy, detail::submission_ref part_of)
        : is_whole_(!part_of),
          submission_(part_of ? std::move(part_of) : detail::submission_ref(new detail::submission(on.owner()))),
          stream_(on, submission_.get()),
          policy_(policy) {}

    const bool is_whole_;  // else a part of another context's submission
    detail::submission_ref submission_;
    sluice::stream stream_;
    scheduling_policy* policy_;
    execution_context& add_branch(command_queue& on);
    void submit_kept() noexcept;

    std::vector<std::unique_ptr<execution_context>> branches_;
    std::vector<stream_point> after_;  // a new branch runs after these
};

}  // namespace sluice
