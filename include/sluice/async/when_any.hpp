// SPDX-License-Identifier: Apache-2.0
// when_any: awaits several awaitables at the same time, and gives the result of the first that ends.
//
//     auto either = when_any(answer(), timeout(100ms));
//     auto [index, value] = co_await std::move(either);        // value: a std::variant, engaged at index
//
// Continues as soon as one of the awaitables has ended, on that thread: with its result, or by throwing its exception.
// std::monostate stands for void and std::reference_wrapper for a reference. The others are abandoned: they continue
// in the background, and each result or exception is dropped where and when it arrives. So what they refer to must live
// until they end, not until when_any does.
//
// The awaitables are moved in, and nothing starts before the result is awaited. They are started one after the other on
// the awaiting thread, all of them, even when an early one ends at once. Dropping the coroutine that waits abandons
// all. Throws std::bad_alloc; std::invalid_argument, when awaited, for an empty vector. It allocates one coroutine
// frame for each awaitable and two blocks for all; of a vector of awaitables also a vector.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "sluice/async/detail/completion.hpp"
#include "sluice/async/detail/root_set.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/async/task.hpp"

namespace sluice {

// Which awaitable ended first, and its result.
template <typename Value>
class when_any_result {
public:
    // Made by when_any. Costs a move of the result.
    when_any_result(std::size_t first, Value result) : index(first), value(std::move(result)) {}

    std::size_t index;  // of the one that ended first, among the awaitables, from 0
    Value value;        // its result; for several awaitables a std::variant, engaged at index
};

namespace detail {
template <typename... Ts>
when_any_result<std::variant<typename stored_result<Ts>::type...>> take_one(std::tuple<root<Ts>...>& roots,
                                                                            std::size_t index) {
    using value = std::variant<typename stored_result<Ts>::type...>;
    std::optional<value> taken;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((I == index ? void(taken.emplace(std::in_place_index<I>, take_stored(std::get<I>(roots)))) : void()), ...);
    }(std::index_sequence_for<Ts...>());
    return {index, std::move(*taken)};
}
template <typename T>
when_any_result<typename stored_result<T>::type> take_one(std::vector<root<T>>& roots, std::size_t index) {
    return {index, take_stored(roots[index])};
}

// Shared by the waiter and, until the last of them has ended, by the roots.
template <typename Roots>
class any_state final : private root_owner {
public:
    explicit any_state(Roots roots) noexcept : roots_(std::move(roots)), left_(count_of(roots_)) {}

    static void start(const std::shared_ptr<any_state>& self) noexcept {
        self->running_ = self;
        const start_without_wait first_one_ends_it;  // the waiter does not wait for each
        for_each_root(self->roots_, [&](auto& each, std::size_t index) { each.start(*self, index); });
    }

    bool wait(std::coroutine_handle<> waiter) noexcept { return first_end_.wait(waiter); }
    auto take() { return take_one(roots_, first_.load(std::memory_order_relaxed)); }
    // The waiter has its result, or is being dropped: the frame of the first one is not needed any more.
    void leave() noexcept {
        std::size_t expected = none_yet;
        if (first_.compare_exchange_strong(expected, the_waiter, std::memory_order_relaxed)) {
            first_end_.withdraw();
        } else {
            drop(expected);
        }
    }

    std::size_t count() const noexcept { return count_of(roots_); }

private:
    static constexpr std::size_t none_yet = static_cast<std::size_t>(-1);
    static constexpr std::size_t the_waiter = none_yet - 1;

    std::coroutine_handle<> root_ended(std::size_t index) noexcept override {
        std::coroutine_handle<> next = std::noop_coroutine();
        std::size_t expected = none_yet;
        if (first_.compare_exchange_strong(expected, index, std::memory_order_relaxed)) {
            next = first_end_.complete();  // releases first_ as well
        } else {
            drop(index);
        }
        // acquire and release: the last one destroys what all others have used.
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            const auto last = std::move(running_);  // without a waiter, this destroys *this
        }
        return next;
    }

    void drop(std::size_t index) noexcept {
        for_each_root(roots_, [&](auto& each, std::size_t i) {
            if (i == index) each.reset();
        });
    }

    Roots roots_;
    std::atomic<std::size_t> left_;
    std::atomic<std::size_t> first_{none_yet};
    completion first_end_;
    std::shared_ptr<any_state> running_;
};

// Awaiting it starts all roots and resumes when one has ended.
template <typename Roots>
class any_ended {
public:
    explicit any_ended(std::shared_ptr<any_state<Roots>> state) noexcept : state_(std::move(state)) {}
    any_ended(const any_ended&) = delete;  // lives in the waiter's frame
    any_ended& operator=(const any_ended&) = delete;
    ~any_ended() { state_->leave(); }

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept {
        any_state<Roots>::start(state_);
        return state_->wait(waiter);
    }
    auto await_resume() { return state_->take(); }

private:
    std::shared_ptr<any_state<Roots>> state_;
};

template <typename Roots>
task<decltype(take_one(std::declval<Roots&>(), 0))> run_any(std::shared_ptr<any_state<Roots>> state) {
    if (state->count() == 0) throw std::invalid_argument("when_any needs something to wait for");
    any_ended<Roots> ended(std::move(state));
    co_return co_await ended;
}
}  // namespace detail

template <awaitable... Awaitables>
requires(sizeof...(Awaitables) > 0)
task<when_any_result<std::variant<detail::stored_result_t<Awaitables>...>>> when_any(Awaitables... sources) {
    using roots = std::tuple<detail::root<detail::kept_result_t<Awaitables>>...>;
    return detail::run_any(
        std::make_shared<detail::any_state<roots>>(roots(detail::make_root<Awaitables>(std::move(sources))...)));
}

template <awaitable Awaitable>
task<when_any_result<detail::stored_result_t<Awaitable>>> when_any(std::vector<Awaitable> sources) {
    using roots = std::vector<detail::root<detail::kept_result_t<Awaitable>>>;
    return detail::run_any(std::make_shared<detail::any_state<roots>>(detail::make_roots(std::move(sources))));
}

}  // namespace sluice
