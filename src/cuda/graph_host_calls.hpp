// SPDX-License-Identifier: Apache-2.0
// The host calls of a graph, as the driver calls them. A launch keeps them until it has completed, and checks for
// exceptions that they threw.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/base/detail/spin_lock.hpp"

namespace sluice::cuda {

class graph_host_call {
public:
    explicit graph_host_call(const std::function<void()>& function)
        : function_(std::make_shared<const std::function<void()>>(function)) {}

    // The function and its argument for the driver: `self` is a graph_host_call.
    static void run(void* self);

    // Returns what the function threw, and forgets it.
    std::exception_ptr take_failure() noexcept;
    void abandon() noexcept;

private:
    detail::spin_lock guard_;  // guards function_
    std::shared_ptr<const std::function<void()>> function_;
    std::exception_ptr failure_;
};

struct graph_host_calls {
    std::vector<std::unique_ptr<graph_host_call>> all;

    // Returns the first failure and forgets all.
    std::exception_ptr take_failure() noexcept;
    // Destroys the functions, or lets them be destroyed when they return. Called when the device has faulted: it is not
    // known whether the driver will still make these calls, so the objects stay.
    void abandon() noexcept;
};

}  // namespace sluice::cuda
