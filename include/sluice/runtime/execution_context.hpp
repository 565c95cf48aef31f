// execution_context: where an operation is submitted. It knows a stream, the stream's device and memory,
// and how to get further streams for independent branches. Passed by reference down the operation; lives
// until the operation has been submitted, or, in a waiting call, waited for.
//
// Thread safety: none; one thread submits one operation.
#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

class execution_context {
public:
    // On the policy's next stream; branches take further ones.
    explicit execution_context(scheduling_policy& policy) : execution_context(policy.next(), &policy) {}
    // On this stream, branches too.
    explicit execution_context(sluice::stream& on) : execution_context(on, nullptr) {}
    execution_context(const execution_context&) = delete;  // branches and submissions point to it
    execution_context& operator=(const execution_context&) = delete;

    sluice::stream& stream() const noexcept { return stream_; }
    sluice::device& device() const noexcept { return stream_.owner(); }

    // A context for an independent branch, on another stream if the policy has one. Owned by this context.
    execution_context& branch();

    // Ends the submission: what the streams get from now on is not this operation's.
    void seal() noexcept;
    // Blocks until everything submitted here and in branches, up to seal(), is complete; in the given way,
    // or in the device's usual one. Throws what went wrong: the device's fault, or the first exception of a
    // command.
    void await(std::optional<wait_mode> mode = {});
    // The same without a word about what went wrong, but for a device that faulted.
    void await_completion(std::optional<wait_mode> mode = {}) const;

private:
    execution_context(sluice::stream& on, scheduling_policy* policy)
        : alive_(on.owner()), stream_(on), policy_(policy), before_(on.issued()) {}

    void rethrow_failure();

    runtime_ref alive_;  // a context may outlive its runtime, in a future
    sluice::stream& stream_;
    scheduling_policy* policy_;
    const std::thread::id submitter_ = std::this_thread::get_id();
    ticket before_;    // what the stream had issued before us
    ticket upto_ = 0;  // and when we had submitted all; 0 before seal()
    std::vector<std::unique_ptr<execution_context>> branches_;
};

}  // namespace sluice
