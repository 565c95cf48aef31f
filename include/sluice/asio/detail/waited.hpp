// SPDX-License-Identifier: Apache-2.0
// What a wait waits for: a device_future, any other awaitable, or an operation that it submits. Each has
//     result                            // the type of its result
//     void prepare(outstanding_wait&)   // may throw
//     void start() noexcept             // complete() will be called once; may destroy everything
//     abandonment abandon() noexcept    // see spawn_task.hpp. now: complete() will not be called
//     result take()                     // after complete(): the result, or throws; on the handler's thread
#pragma once

#include <optional>

#include "sluice/asio/detail/outstanding_waits.hpp"
#include "sluice/async/detail/root.hpp"
#include "sluice/runtime/device_future.hpp"

namespace sluice::detail {

// Any awaitable. It is started here and cannot be stopped: when abandoned, it continues, and its result is dropped.
template <awaitable Awaitable>
class waited final : private root_owner {
public:
    using result = kept_result_t<Awaitable>;

    explicit waited(Awaitable what) : root_(make_root<Awaitable>(std::move(what))) {}

    void prepare(outstanding_wait& wait) { wait_ = &wait; }
    void start() noexcept { root_.start(*this); }
    abandonment abandon() noexcept { return abandonment::none; }
    result take() { return root_.take(); }

private:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        wait_->complete();  // *this may be destroyed
        return std::noop_coroutine();
    }

    root<result> root_;
    outstanding_wait* wait_ = nullptr;
};

// When abandoned, its outputs are dropped at once and their memory is reused after the work, as with any dropped
// future.
template <typename Output>
class waited<device_future<Output>> final {
public:
    using result = typename device_future<Output>::value_type;

    explicit waited(device_future<Output> what) : future_(std::move(what)) {}

    void prepare(outstanding_wait& wait) {
        wait_ = &wait;
        if (!future_->valid() || future_->is_ready()) return;  // take() throws
        notice_ = completion_notice::make(
            future_->submission(), nullptr,
            [](void* waiting) noexcept { static_cast<outstanding_wait*>(waiting)->complete(); }, &wait);
    }
    void start() noexcept {
        if (notice_.get() != nullptr) {
            notice_.get()->start();
        } else {
            wait_->complete();
        }
    }
    abandonment abandon() noexcept {
        future_.reset();
        return notice_.get() != nullptr && notice_.get()->cancel() ? abandonment::now : abandonment::none;
    }
    result take() { return std::move(*future_).get(); }  // does not block: it is complete

private:
    std::optional<device_future<Output>> future_;
    outstanding_wait* wait_ = nullptr;
    completion_notice::handle notice_;
};

// When abandoned, a task continues; a host-driven operation calls and submits nothing any more.
template <typename T>
class waited<spawned<T>> final : private root_owner {
public:
    using result = T;

    explicit waited(spawned<T> what) : state_(spawned_access::state(what)), root_(make_root(std::move(what))) {}

    void prepare(outstanding_wait& wait) { wait_ = &wait; }
    void start() noexcept { root_.start(*this); }
    abandonment abandon() noexcept {
        if (state_ == nullptr) return abandonment::none;
        const abandonment how = state_->abandon();
        if (how == abandonment::now) root_.reset();
        return how;
    }
    result take() { return root_.take(); }

private:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        wait_->complete();  // *this may be destroyed
        return std::noop_coroutine();
    }

    std::shared_ptr<spawned_state<T>> state_;
    root<result> root_;
    outstanding_wait* wait_ = nullptr;
};

// An operation that is submitted here. What submitting it throws is given with the result.
template <operation Op>
class waited_run final {
    using running = waited<decltype(spawn(std::declval<Op>(), std::declval<scheduling_policy&>()))>;

public:
    using result = typename running::result;

    waited_run(Op op, scheduling_policy& policy) {
        try {
            running_.emplace(spawn(std::move(op), policy));
        } catch (...) {
            refusal_ = std::current_exception();
        }
    }

    void prepare(outstanding_wait& wait) {
        wait_ = &wait;
        if (running_) running_->prepare(wait);
    }
    void start() noexcept {
        if (running_) {
            running_->start();
        } else {
            wait_->complete();
        }
    }
    abandonment abandon() noexcept { return running_ ? running_->abandon() : abandonment::none; }
    result take() {
        if (refusal_) std::rethrow_exception(std::move(refusal_));
        return running_->take();
    }

private:
    std::optional<running> running_;
    std::exception_ptr refusal_;
    outstanding_wait* wait_ = nullptr;
};

}  // namespace sluice::detail
