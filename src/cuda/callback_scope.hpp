// SPDX-License-Identifier: Apache-2.0
// callback_scope: marks a thread of the driver while it runs a host call. There no call of CUDA is allowed, so the
// thread must not wait for any GPU.
#pragma once

#include "runtime/host_call_end.hpp"
#include "sluice/async/detail/thread_duty.hpp"

namespace sluice::cuda {

class callback_scope {
public:
    callback_scope() noexcept { ++depth(); }
    callback_scope(const callback_scope&) = delete;  // belongs to the thread
    callback_scope& operator=(const callback_scope&) = delete;
    ~callback_scope() { --depth(); }

    static bool is_active() noexcept { return depth() != 0; }

private:
    static int& depth() noexcept {
        thread_local int of_this_thread = 0;
        return of_this_thread;
    }

    sluice::detail::host_call_end end_;  // destroyed last
    const sluice::detail::duty_scope duty_{sluice::detail::thread_duty::runs_commands};
};

}  // namespace sluice::cuda
