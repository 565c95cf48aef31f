// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/timed_wait.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>

#include "runtime/completion_service.hpp"
#include "sluice/async/executor.hpp"
#include "sluice/runtime/detail/completion_notice.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"

namespace sluice::detail {

// Owned by the timed_wait, and by the notice until its call has completed.
struct timed_wait::told {
    std::mutex mutex;
    std::condition_variable wake;
    bool is_told = false;
    std::atomic<int> owners{2};
    completion_notice::handle notice;
};

void timed_wait::release(told* one, int owners) noexcept {
    if (one->owners.fetch_sub(owners, std::memory_order_acq_rel) == owners) delete one;
}

timed_wait::~timed_wait() {
    told* const mine = told_.load(std::memory_order_acquire);
    if (mine == nullptr) return;
    const bool is_never_told = mine->notice.get()->cancel();
    release(mine, is_never_told ? 2 : 1);
}

timed_wait::told& timed_wait::told_of(const submission_ref& submitted) const {
    if (told* const known = told_.load(std::memory_order_acquire)) return *known;
    static inline_executor target;  // static: a cancelled notice still ends on it, after the timed_wait was destroyed
    const auto tell = [](void* whom) noexcept {
        auto* const waiter = static_cast<told*>(whom);
        {
            const std::lock_guard lock(waiter->mutex);
            waiter->is_told = true;
            waiter->wake.notify_all();
        }
        release(waiter, 1);
    };
    auto made = std::make_unique<told>();
    made->notice = completion_notice::make(submitted, &target, tell, made.get());
    told* known = nullptr;
    if (!told_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *known;
    made->notice.get()->start();
    return *made.release();
}

bool timed_wait::until(const submission_ref& submitted, const deadline& latest) const {
    if (submitted->is_over()) return true;
    require_may_wait(*submitted, "wait_for");
    const completion_service& service = submitted->home().service();
    service_driver* const driver = service.driver();
    const auto due = service.due(latest);
    if (driver == nullptr && due <= service.now()) {  // one poll is enough
        submitted->poll();
        return submitted->is_over();
    }
    require_may_wait_host_driven(submitted->home(), "wait_for");
    told& state = told_of(submitted);
    const auto is_told = [&] { return state.is_told; };
    if (driver != nullptr) return driver->run_until(is_told, due) || submitted->is_over();
    std::unique_lock lock(state.mutex);
    return state.wake.wait_until(lock, latest.at(), is_told) || submitted->is_over();
}

}  // namespace sluice::detail
