// SPDX-License-Identifier: Apache-2.0
// The words of std::execution that sluice/senders.hpp uses: the standard library's, or the same written out. They are
// those of C++26 (P2300) where receivers, operation states and environments have member functions.
//
// sluice::execution names std::execution where the standard library has it (__cpp_lib_senders). Elsewhere it has the
// least that a sender and its receiver need, and no algorithms: a receiver of your own, or an adaptor to the library of
// senders that you use, speaks it.
//
// All functions here take constant time, and what the functions take that they call.
#pragma once

#include <version>

#if defined(__cpp_lib_senders)

#include <execution>
#include <stop_token>

namespace sluice::execution {
using namespace std::execution;
using std::get_stop_token;
using std::get_stop_token_t;
}  // namespace sluice::execution

#else

#include <concepts>
#include <type_traits>
#include <utility>

namespace sluice::execution {

struct sender_t {};           // names a sender, as its sender_concept
struct receiver_t {};         // names a receiver, as its receiver_concept
struct operation_state_t {};  // names an operation state, as its operation_state_concept
struct scheduler_t {};        // names a scheduler, as its scheduler_concept

// The ways in which a sender completes: completion_signatures<set_value_t(int), set_error_t(E), set_stopped_t()>.
template <typename... Signatures>
struct completion_signatures {};

// Completes a receiver with values: calls its set_value, which is noexcept.
struct set_value_t {
    template <typename Receiver, typename... Ts>
    void operator()(Receiver&& to, Ts&&... values) const noexcept {
        static_assert(noexcept(std::forward<Receiver>(to).set_value(std::forward<Ts>(values)...)),
                      "a receiver's set_value is noexcept");
        std::forward<Receiver>(to).set_value(std::forward<Ts>(values)...);
    }
};
// Completes a receiver with an error: calls its set_error.
struct set_error_t {
    template <typename Receiver, typename E>
    void operator()(Receiver&& to, E&& what) const noexcept {
        std::forward<Receiver>(to).set_error(std::forward<E>(what));
    }
};
// Completes a receiver that was asked to stop: calls its set_stopped.
struct set_stopped_t {
    template <typename Receiver>
    void operator()(Receiver&& to) const noexcept {
        std::forward<Receiver>(to).set_stopped();
    }
};
inline constexpr set_value_t set_value{};      // see set_value_t
inline constexpr set_error_t set_error{};      // see set_error_t
inline constexpr set_stopped_t set_stopped{};  // see set_stopped_t

// An environment without answers.
struct empty_env {};

// The environment of a receiver or a sender: what its get_env returns, or empty_env where it has none.
struct get_env_t {
    template <typename T>
    auto operator()(const T& of) const noexcept {
        if constexpr (requires { of.get_env(); }) {
            return of.get_env();
        } else {
            return empty_env{};
        }
    }
};
inline constexpr get_env_t get_env{};  // see get_env_t

// Of a receiver that cannot be asked to stop.
struct never_stop_token {
    // What a stop calls: nothing, as no stop comes.
    template <typename>
    struct callback_type {
        explicit callback_type(never_stop_token, const auto&) noexcept {}  // drops the function
    };
    static constexpr bool stop_requested() noexcept { return false; }  // always false
    static constexpr bool stop_possible() noexcept { return false; }   // always false
    bool operator==(const never_stop_token&) const = default;
};

// The stop token of an environment: what it answers to this query, or never_stop_token.
struct get_stop_token_t {
    template <typename Env>
    auto operator()(const Env& env) const noexcept {
        if constexpr (requires { env.query(*this); }) {
            return env.query(*this);
        } else {
            return never_stop_token{};
        }
    }
};
inline constexpr get_stop_token_t get_stop_token{};  // see get_stop_token_t

// Asks a sender's environment on which scheduler it completes with this tag.
template <typename Tag>
struct get_completion_scheduler_t {
    template <typename Env>
    auto operator()(const Env& env) const noexcept {
        return env.query(*this);
    }
};
template <typename Tag>
inline constexpr get_completion_scheduler_t<Tag> get_completion_scheduler{};  // see get_completion_scheduler_t

// What connect returns: start() begins the work, and is noexcept.
template <typename T>
concept operation_state =
    std::derived_from<typename T::operation_state_concept, operation_state_t> && requires(T& state) {
        { state.start() } noexcept;
    };
// What a sender completes.
template <typename T>
concept receiver = std::derived_from<typename std::remove_cvref_t<T>::receiver_concept, receiver_t> &&
                   std::move_constructible<std::remove_cvref_t<T> >;
// Work that connect and start begin.
template <typename T>
concept sender = std::derived_from<typename std::remove_cvref_t<T>::sender_concept, sender_t> &&
                 std::move_constructible<std::remove_cvref_t<T> >;
// Where work runs: schedule() returns a sender that completes there.
template <typename T>
concept scheduler = std::derived_from<typename std::remove_cvref_t<T>::scheduler_concept, scheduler_t> &&
                    std::copyable<std::remove_cvref_t<T> > && std::equality_comparable<std::remove_cvref_t<T> > &&
                    requires(const std::remove_cvref_t<T>& from) {
                        { from.schedule() } -> sender;
                    };

// Connects a sender to a receiver: the sender's connect, which returns an operation state.
struct connect_t {
    template <sender Sender, receiver Receiver>
    auto operator()(Sender&& from, Receiver&& to) const {
        return std::forward<Sender>(from).connect(std::forward<Receiver>(to));
    }
};
// Starts an operation state.
struct start_t {
    template <operation_state State>
    void operator()(State& state) const noexcept {
        state.start();
    }
};
// The sender of a scheduler.
struct schedule_t {
    template <scheduler Scheduler>
    auto operator()(const Scheduler& on) const noexcept {
        return on.schedule();
    }
};
inline constexpr connect_t connect{};    // see connect_t
inline constexpr start_t start{};        // see start_t
inline constexpr schedule_t schedule{};  // see schedule_t

}  // namespace sluice::execution

#endif
