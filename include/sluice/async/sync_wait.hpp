// SPDX-License-Identifier: Apache-2.0
// sync_wait: blocks a plain thread until an awaitable is complete.
//
//     int n = sync_wait(answer());
//
// Awaits it on the calling thread, blocks until it is complete, and returns its value or throws its exception. An
// rvalue reference is returned as a value. Must not be called on a thread that the awaitable needs in order to
// continue. On a runtime's completion thread, a worker thread of a device, or the last free thread of an executor, what
// the awaitable awaits there throws errc::invalid_argument if it would need that thread; after the awaitable has
// continued on another thread, that is not checked. A thread of an executor that the awaitable has awaited counts as
// not free until the awaitable is complete. On the thread of a simulator it runs the simulated devices
// meanwhile. It allocates one coroutine frame. The caller owns the awaitable: one with a name is awaited as the lvalue
// or the rvalue (std::move) that is passed.
#pragma once

#include <condition_variable>
#include <mutex>

#include "sluice/async/detail/item_threads.hpp"
#include "sluice/async/detail/root.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/async/detail/wait_driver.hpp"

namespace sluice {

namespace detail {
// Sleeps until a root has ended.
class blocking_owner final : public root_owner {
public:
    blocking_owner() = default;

    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        const std::lock_guard lock(mutex_);
        ended_ = true;
        wake_.notify_one();  // under the lock: the waiting thread destroys *this once it has seen the end
        return std::noop_coroutine();
    }

    // Throws only on a thread that drives (wait_driver): when the root can never end.
    void wait() {
        if (has_wait_driver()) return drive_until([this] { return has_ended(); });
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return ended_; });
    }

private:
    bool has_ended() {
        const std::lock_guard lock(mutex_);
        return ended_;
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    bool ended_ = false;
};
}  // namespace detail

template <typename Awaitable>
requires awaitable<Awaitable>
detail::kept_result_t<Awaitable> sync_wait(Awaitable&& source) {
    auto root = detail::make_root<Awaitable&&>(std::forward<Awaitable>(source));
    detail::blocking_owner owner;
    const detail::wait_for_start counted;
    {
        const detail::start_before_wait starting;
        root.start(owner);
    }
    owner.wait();
    return root.take();
}

}  // namespace sluice
