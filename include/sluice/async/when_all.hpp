// SPDX-License-Identifier: Apache-2.0
// when_all: awaits several awaitables at the same time, and gives all results.
//
//     auto both = when_all(read(first), read(second));
//     auto [a, b] = co_await std::move(both);
//
// Gives a std::tuple of the results, or for a std::vector of awaitables a std::vector, by position; std::monostate
// stands for void and std::reference_wrapper for a reference. When some fail, it still waits for all, and then throws
// the exception of the first of them by position; the other results and exceptions are dropped.
//
// The awaitables are moved in, and nothing starts before the result is awaited. They are started one after the other on
// the awaiting thread, each up to where it first suspends: an awaitable that must run in parallel moves to an
// executor, or is spawned. The awaiting coroutine continues where the last of them ends. Throws std::bad_alloc. It
// allocates one coroutine frame for each awaitable and one for all; of a vector of awaitables also two vectors.
#pragma once

#include <atomic>

#include "sluice/async/detail/completion.hpp"
#include "sluice/async/detail/root_set.hpp"
#include "sluice/async/task.hpp"

namespace sluice {

namespace detail {
// Awaiting it starts all roots and resumes when all have ended.
template <typename Roots>
class all_ended final : private root_owner {
public:
    explicit all_ended(Roots& roots) noexcept : roots_(&roots), left_(count_of(roots)) {}

    bool await_ready() const noexcept { return count_of(*roots_) == 0; }
    bool await_suspend(std::coroutine_handle<> waiter) noexcept {
        for_each_root(*roots_, [this](auto& each, std::size_t) { each.start(*this); });
        return end_.wait(waiter);
    }
    void await_resume() const noexcept {}

private:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        // acquire and release: the last one passes on the results of all others.
        if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::noop_coroutine();
        return end_.complete();
    }

    Roots* roots_;
    std::atomic<std::size_t> left_;
    completion end_;
};

template <typename... Ts>
auto take_all(std::tuple<root<Ts>...>& roots) {
    return std::apply(
        [](auto&... each) {
            using results = std::tuple<typename stored_result<Ts>::type...>;
            return results{take_stored(each)...};  // in braces: from left to right
        },
        roots);
}
template <typename T>
auto take_all(std::vector<root<T>>& roots) {
    std::vector<typename stored_result<T>::type> results;
    results.reserve(roots.size());
    for (root<T>& each : roots) results.push_back(take_stored(each));
    return results;
}

template <typename Roots>
task<decltype(take_all(std::declval<Roots&>()))> run_all(Roots roots) {
    all_ended<Roots> ended(roots);
    co_await ended;
    co_return take_all(roots);
}
}  // namespace detail

template <awaitable... Awaitables>
task<std::tuple<detail::stored_result_t<Awaitables>...>> when_all(Awaitables... sources) {
    using roots = std::tuple<detail::root<detail::kept_result_t<Awaitables>>...>;
    return detail::run_all(roots(detail::make_root<Awaitables>(std::move(sources))...));
}

template <awaitable Awaitable>
task<std::vector<detail::stored_result_t<Awaitable>>> when_all(std::vector<Awaitable> sources) {
    return detail::run_all(detail::make_roots(std::move(sources)));
}

}  // namespace sluice
