// What a wait waits for: a device_future, anything else that can be awaited, or a run that is submitted for it. Each
// has
//     result                            // what it gives
//     void prepare(outstanding_wait&)   // may throw
//     void start() noexcept             // come() will be called once; all may be gone when this returns
//     bool abandon() noexcept           // of no use any more; whether come() certainly will not be called
//     result take()                     // once it has come: gives the result or throws; on the handler's thread
#pragma once

#include <optional>
#include <stop_token>

#include "sluice/asio/outstanding_waits.hpp"
#include "sluice/async/root.hpp"
#include "sluice/op/give_up.hpp"
#include "sluice/runtime/device_future.hpp"

namespace sluice::detail {

// Anything awaitable. It is started here and cannot be stopped: abandoned, it goes on, and its result is dropped.
template <awaitable Awaitable>
class waited final : private root_owner {
public:
    using result = kept_result_t<Awaitable>;

    explicit waited(Awaitable what) : root_(make_root<Awaitable>(std::move(what))) {}

    void prepare(outstanding_wait& whose) { whose_ = &whose; }
    void start() noexcept { root_.start(*this); }
    bool abandon() noexcept { return false; }
    result take() { return root_.take(); }

private:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        whose_->come();  // *this may be gone
        return std::noop_coroutine();
    }

    root<result> root_;
    outstanding_wait* whose_ = nullptr;
};

// Abandoned, its outputs are dropped at once and their memory is reused behind the work, as with any dropped future.
template <typename Output>
class waited<device_future<Output>> final {
public:
    using result = typename device_future<Output>::value_type;

    explicit waited(device_future<Output> what) : future_(std::move(what)) {}

    void prepare(outstanding_wait& whose) {
        whose_ = &whose;
        if (!future_->valid() || future_->is_ready()) return;  // take() tells
        notice_ = completion_notice::make(
            future_->submission(), nullptr,
            [](void* waiting) noexcept { static_cast<outstanding_wait*>(waiting)->come(); }, &whose);
    }
    void start() noexcept {
        if (notice_.get() != nullptr) {
            notice_.get()->start();
        } else {
            whose_->come();
        }
    }
    bool abandon() noexcept {
        future_.reset();
        return notice_.get() != nullptr && notice_.get()->cancel();
    }
    result take() { return std::move(*future_).get(); }  // does not block: it has come

private:
    std::optional<device_future<Output>> future_;
    outstanding_wait* whose_ = nullptr;
    completion_notice::handle notice_;
};

template <operation Op>
auto spawn_stoppable(Op op, scheduling_policy& policy, [[maybe_unused]] const std::stop_source& stop) {
    if constexpr (is_staged<Op>) {
        return spawn(stop_when(std::move(op), stop.get_token()), policy);
    } else {
        return spawn(std::move(op), policy);
    }
}

// An operation that is submitted here. What submitting it throws comes with the result. Of a staged operation nothing
// more is submitted once it is abandoned.
template <operation Op>
class waited_run final {
    using running = waited<decltype(spawn_stoppable(std::declval<Op>(), std::declval<scheduling_policy&>(),
                                                    std::declval<const std::stop_source&>()))>;

public:
    using result = typename running::result;

    waited_run(Op op, scheduling_policy& policy) {
        try {
            if constexpr (is_staged<Op>) stop_ = std::stop_source();
            running_.emplace(spawn_stoppable(std::move(op), policy, stop_));
        } catch (...) {
            refusal_ = std::current_exception();
        }
    }

    void prepare(outstanding_wait& whose) {
        whose_ = &whose;
        if (running_) running_->prepare(whose);
    }
    void start() noexcept {
        if (running_) {
            running_->start();
        } else {
            whose_->come();
        }
    }
    bool abandon() noexcept {
        stop_.request_stop();
        return running_ && running_->abandon();
    }
    result take() {
        if (refusal_) std::rethrow_exception(std::move(refusal_));
        return running_->take();
    }

private:
    std::stop_source stop_{std::nostopstate};
    std::optional<running> running_;
    std::exception_ptr refusal_;
    outstanding_wait* whose_ = nullptr;
};

}  // namespace sluice::detail
