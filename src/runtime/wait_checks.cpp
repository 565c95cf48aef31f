// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/wait_checks.hpp"

#include "runtime/completion_service.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

void require_may_wait(device& home) {
    if (!home.interpreter().is_own_thread()) return;
    throw error(
        errc::invalid_argument,
        "a worker thread of the device cannot wait for the device. In a host call, do not submit and do not wait; "
        "a coroutine that an inline_executor has resumed here can co_await, or resume on a thread_pool",
        {"", home.name()});
}

void require_may_wait_host_driven(device& home) {
    require_may_wait(home);
    if (!home.service().is_own_thread()) return;
    throw error(
        errc::invalid_argument,
        "the runtime's completion thread cannot wait here, because it resumes the waiters. In a coroutine, "
        "co_await instead, or continue on another executor first: co_await std::move(future).resume_on(executor)",
        {"", home.name()});
}

}  // namespace sluice::detail
