// device_future<T>: an operation that has been submitted and is on its way. spawn() makes one and returns at
// once; get() waits.
//
//     auto first = spawn(forward(x), pool);
//     auto second = spawn(forward(y), pool);
//     std::vector<float> result = std::move(first).get();
#pragma once

#include <memory>
#include <optional>

#include "sluice/op/operation.hpp"
#include "sluice/runtime/execution_context.hpp"
#include "sluice/runtime/pending.hpp"

namespace sluice {

// Move-only. Dropping it waits for nothing and frees its outputs in stream order. It may outlive its policy
// and its runtime.
template <typename Output>
class device_future {
public:
    using value_type = decltype(detail::open(std::declval<Output>()));

    device_future(std::unique_ptr<execution_context> context, Output output)
        : context_(std::move(context)), output_(std::move(output)) {}

    // Blocks the calling thread until the operation is complete; returns its output with everything pending
    // opened, or throws what went wrong.
    value_type get(std::optional<wait_mode> mode = {}) && {
        if (!valid()) throw error(errc::invalid_argument, "a future gives its value once", {"get"});
        const auto context = std::move(context_);  // from now on there is nothing to wait for
        context->await(mode);
        return detail::open(std::move(output_));
    }

    // Blocks until the operation is complete, or has failed: get() will tell, and not block.
    void wait(std::optional<wait_mode> mode = {}) const { context_->await_completion(mode); }

    // Whether get() has not been called yet.
    bool valid() const noexcept { return context_ != nullptr; }

private:
    std::unique_ptr<execution_context> context_;  // outlives the output, and keeps its streams alive
    Output output_;
};

// Submits the operation to the policy's next stream and returns without waiting for the device. Throws what
// submitting throws, having waited for the part of it that was submitted.
template <operation Op>
auto spawn(Op op, scheduling_policy& policy) {
    auto context = std::make_unique<execution_context>(policy);
    auto output = [&] {
        try {
            return std::move(op).submit(*context);
        } catch (...) {
            context->seal();
            context->await_completion();
            throw;
        }
    }();
    context->seal();
    return device_future<output_of<Op>>(std::move(context), std::move(output));
}

}  // namespace sluice
