// SPDX-License-Identifier: Apache-2.0
#include "cuda/graph_host_calls.hpp"

#include <mutex>
#include <utility>

#include "cuda/callback_scope.hpp"

namespace sluice::cuda {

void graph_host_call::run(void* self) {
    const callback_scope here;
    auto& call = *static_cast<graph_host_call*>(self);
    std::shared_ptr<const std::function<void()>> function;
    {
        const std::lock_guard lock(call.guard_);
        function = call.function_;
    }
    try {
        if (function != nullptr && *function) (*function)();
    } catch (...) {
        call.failure_ = std::current_exception();
    }
}

std::exception_ptr graph_host_call::take_failure() noexcept { return std::exchange(failure_, nullptr); }

void graph_host_call::abandon() noexcept {
    std::shared_ptr<const std::function<void()>> dropped;  // destroyed without the lock
    const std::lock_guard lock(guard_);
    dropped.swap(function_);
}

std::exception_ptr graph_host_calls::take_failure() noexcept {
    std::exception_ptr first;
    for (const auto& each : all) {
        std::exception_ptr failure = each->take_failure();
        if (!first) first = std::move(failure);
    }
    return first;
}

void graph_host_calls::abandon() noexcept {
    for (const auto& each : all) each->abandon();
}

}  // namespace sluice::cuda
