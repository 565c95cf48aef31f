// SPDX-License-Identifier: Apache-2.0
// root<T>: the coroutine at the bottom of a chain of awaiting coroutines. It awaits one awaitable, keeps the result and
// notifies its owner. sync_wait, spawn, when_all and when_any are owners.
#pragma once

#include <cstddef>

#include "sluice/async/awaitable.hpp"
#include "sluice/async/detail/coroutine_frame.hpp"
#include "sluice/async/detail/result_promise.hpp"

namespace sluice::detail {

class root_owner {
public:
    // A root that this owner has started has ended; called on the thread where it ended. The root's result can
    // be taken and the root may be destroyed, here or on another thread. Returns the coroutine to resume.
    virtual std::coroutine_handle<> root_ended(std::size_t index) noexcept = 0;

protected:
    root_owner() = default;
    ~root_owner() = default;
    root_owner(const root_owner&) = delete;  // roots point to it
    root_owner& operator=(const root_owner&) = delete;
};

template <typename T>
class root {
public:
    using result = T;

    class promise_type final : public result_promise<T> {
    public:
        root get_return_object() noexcept { return root(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_always initial_suspend() const noexcept { return {}; }

        class final_awaiter {
        public:
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) const noexcept {
                promise_type& promise = self.promise();
                return promise.owner_->root_ended(promise.index_);
            }
            void await_resume() const noexcept {}
        };
        final_awaiter final_suspend() const noexcept { return {}; }

    private:
        friend root;
        root_owner* owner_ = nullptr;
        std::size_t index_ = 0;
    };

    // Once. The owner is notified of the end, maybe before this returns, with the index given here.
    void start(root_owner& owner, std::size_t index = 0) noexcept {
        const auto body = body_.get();
        body.promise().owner_ = &owner;
        body.promise().index_ = index;
        body.resume();  // may destroy *this
    }

    // After the end.
    T take() { return body_.get().promise().take(); }
    bool failed() const noexcept { return body_.get().promise().failed(); }
    // Destroys the frame, with a result that was not taken.
    void reset() noexcept { body_.reset(); }

private:
    explicit root(std::coroutine_handle<promise_type> body) noexcept : body_(body) {}

    coroutine_frame<promise_type> body_;
};

// A root that awaits the given awaitable: moved into the frame, or with make_root<T&> and make_root<T&&> owned by the
// caller. Does not start it. Throws std::bad_alloc.
template <typename Awaitable>
root<kept_result_t<Awaitable>> make_root(Awaitable source) {
    if constexpr (std::is_void_v<kept_result_t<Awaitable>>) {
        co_await static_cast<Awaitable&&>(source);
    } else {
        co_return co_await static_cast<Awaitable&&>(source);
    }
}

}  // namespace sluice::detail
