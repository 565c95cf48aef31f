// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/wait_checks.hpp"

#include <algorithm>

#include "runtime/completion_service.hpp"
#include "sluice/async/detail/item_threads.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/submission.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {
namespace {

bool is_unfinished(const stream_point& point) { return point.queue->passed() < point.queue->reached(point.upto); }

bool is_own_thread(device* of) { return of->interpreter().is_own_thread(); }

// Whether commands of `home` wait for another device, of which this is a thread.
bool depends_on_this_thread(const device& home) {
    if (duty_of_this_thread() != thread_duty::runs_commands || !home.depends_on_others()) return false;
    const auto peers = home.peers();
    return std::ranges::any_of(peers, is_own_thread);
}
bool may_need_this_thread(device& home) { return is_own_thread(&home) || depends_on_this_thread(home); }

[[noreturn]] void refuse_on_worker(const device& home, std::string_view operation) {
    throw error(
        errc::invalid_argument,
        "a worker thread of the device, or a thread that runs a host call, cannot wait for the device, because the "
        "device may need it in order to continue. In a host call, do not submit and do not wait; a coroutine that an "
        "inline_executor has resumed here can co_await, or resume on a thread_pool",
        {operation, home.name()});
}

[[noreturn]] void refuse_on_completion_thread(const device& home, std::string_view operation) {
    throw error(
        errc::invalid_argument,
        "the runtime's completion thread cannot wait here, because it resumes the waiters. In a coroutine, "
        "co_await instead, or continue on another executor first: co_await std::move(future).resume_on(executor)",
        {operation, home.name()});
}

}  // namespace

void require_may_wait(device& home, std::string_view operation) {
    if (may_need_this_thread(home)) refuse_on_worker(home, operation);
}

void require_may_wait(const stream_point& point, std::string_view operation) {
    if (point.queue == nullptr) return;
    device& home = point.queue->owner();
    if (may_need_this_thread(home) && is_unfinished(point)) refuse_on_worker(home, operation);
}

void require_may_wait(const submission& submitted, std::string_view operation) {
    submitted.for_each_point([&](const stream_point& each) { require_may_wait(each, operation); });
}

void require_may_wait_host_driven(device& home, std::string_view operation) {
    require_may_wait(home, operation);
    if (home.service().is_own_thread()) refuse_on_completion_thread(home, operation);
}

void require_may_await(const submission& submitted, const executor* target) {
    if (is_starting_wait()) require_other_thread(target, "sync_wait");
    if (!is_wait_with_duty()) return;
    require_may_wait(submitted, "sync_wait");
    // The workers of a CPU device post the coroutine to its executor themselves; a GPU's streams are watched.
    const stream_point open = submitted.next_open();
    const bool is_watched = open.queue != nullptr && open.queue->interpreter().needs_watching();
    device& home = submitted.home();
    if (home.service().is_own_thread() && (target == nullptr || is_watched))
        refuse_on_completion_thread(home, "sync_wait");
}

}  // namespace sluice::detail
