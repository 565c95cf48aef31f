// SPDX-License-Identifier: Apache-2.0
// What an operation is.
//
// An operation is a value that describes work. Nothing runs until it is submitted to an execution context; submitting
// consumes it, hands its commands to the context's stream and returns its output. Submitting does not wait: an output
// such as a tensor may be named, passed on and dropped long before the device has written its contents. Operations are
// move-only; the one exception is share(...), whose copies run once together.
//
// A type is an operation when it derives from operation_base and has
//     using output = ...;                                // what submit returns
//     output submit(execution_context& context) &&;      // strong guarantee: throws on failure and loses nothing
//     work_estimate estimate() const;                    // how much device work it is, roughly
// A combinator has two more forms, for sources that the host drives (drive) and for long chains (next_link): see
// docs/adding_a_combinator.md. An output that is a std::tuple is spread: its elements arrive as separate arguments.
//
// Operation types are classes with constructors, never aggregates: g++ 12 destroys aggregate temporaries
// twice in a co_await expression.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sluice/base/source_location.hpp"

namespace sluice {

class execution_context;

// A rough measure of device work, known before submission. It decides only whether a branch is worth a
// stream of its own.
struct work_estimate {
    std::size_t commands = 0;  // that will be submitted
    std::size_t bytes = 0;     // that will be moved or written

    // Of both together. Costs O(1).
    friend constexpr work_estimate operator+(work_estimate a, work_estimate b) {
        return {a.commands + b.commands, a.bytes + b.bytes};
    }
};

namespace detail {
struct operation_tag {};
class chain_link;  // see chain.hpp

template <typename T>
inline constexpr bool is_tuple = false;
template <typename... Ts>
inline constexpr bool is_tuple<std::tuple<Ts...>> = true;

// Calls f with an output: a tuple's elements become separate arguments.
template <typename Function, typename Output>
decltype(auto) spread(Function&& f, Output&& output) {
    if constexpr (is_tuple<std::remove_cvref_t<Output>>) {
        return std::apply(std::forward<Function>(f), std::forward<Output>(output));
    } else {
        return std::forward<Function>(f)(std::forward<Output>(output));
    }
}

template <typename Function, typename Tuple, std::size_t... Indices>
constexpr bool can_apply(std::index_sequence<Indices...>) {
    return std::is_invocable_v<Function, decltype(std::get<Indices>(std::declval<Tuple>()))...>;
}
// Whether spread(Function, Output) compiles.
template <typename Function, typename Output>
constexpr bool can_spread() {
    using bare = std::remove_cvref_t<Output>;
    if constexpr (is_tuple<bare>) {
        return can_apply<Function, Output>(std::make_index_sequence<std::tuple_size_v<bare>>());
    } else {
        return std::is_invocable_v<Function, Output>;
    }
}

template <typename Function, typename Output>
using spread_result = decltype(spread(std::declval<Function>(), std::declval<Output>()));
}  // namespace detail

// A type that derives from operation_base, or a reference to one.
template <typename T>
concept operation = std::derived_from<std::remove_cvref_t<T>, detail::operation_tag>;

// What submitting an operation returns.
template <operation Op>
using output_of = typename std::remove_cvref_t<Op>::output;

namespace detail {
template <typename Op>
inline constexpr bool has_submit = requires(Op op, execution_context& context) { std::move(op).submit(context); };
template <typename Op>
inline constexpr bool has_next_link = requires(Op& op, execution_context*& context) { op.next_link(context); };

// Whether one of them may hold an any_operation.
template <typename... Ops>
concept has_links = (has_next_link<Ops> || ...);
}  // namespace detail

// Whether all of these operations have submit.
template <typename... Ops>
concept can_submit = (detail::has_submit<std::remove_cvref_t<Ops>> && ...);

// Whether the host must decide something between parts of the operation, after the device has come that far: to
// recover, to try again, to give up (or_else, retry, timeout ...). Such an operation has drive instead of submit; spawn
// and sync run it part by part. It cannot be compiled into a graph.
template <operation Op>
inline constexpr bool is_host_driven = !can_submit<Op>;

// Gives every operation its combinators as members. Each consumes the operation, so it must be an rvalue: write
// std::move(op).and_then(...) for one that has a name. All members take constant time on the host: they move the
// operation and the function into the new operation, and call neither.
template <typename Derived>
class operation_base : public detail::operation_tag {
public:
    // Continues with the operation that f returns for this one's output. f runs on the submitting thread,
    // at submission. Operations of the library such as relu report the line of the and_then.
    template <typename Function>
    auto and_then(Function f, const source_location& location = source_location::current()) &&;
    template <typename Function>
    auto and_then(Function) const& = delete;  // an operation is consumed: std::move it

    // Maps the output with f, a function on values. f runs on the submitting thread, at submission.
    template <typename Function>
    auto transform(Function f) &&;
    template <typename Function>
    auto transform(Function) const& = delete;  // an operation is consumed: std::move it

    // Recovers: when the operation has failed, where it was submitted or on the device, continues with the
    // operation that f returns for the std::exception_ptr. See or_else.hpp.
    template <typename Function>
    auto or_else(Function f) &&;
    template <typename Function>
    auto or_else(Function) const& = delete;  // an operation is consumed: std::move it

    // Runs `second` after this operation, without data between them. See then.hpp.
    template <typename Second>
    auto then(Second second) &&;
    template <typename Second>
    auto then(Second) const& = delete;  // an operation is consumed: std::move it

    // Calls f with const references to the outputs, at submission, and passes the outputs on. See tap.hpp.
    template <typename Function>
    auto tap(Function f) &&;
    template <typename Function>
    auto tap(Function) const& = delete;  // an operation is consumed: std::move it

    // The first, or the last, of several outputs. See first.hpp.
    auto first() &&;
    auto last() &&;  // the last of several outputs

private:
    friend Derived;  // and no other class: `class b : operation_base<a>` would call the members of a
    operation_base() = default;
    ~operation_base() = default;
    operation_base(operation_base&&) = default;
    operation_base& operator=(operation_base&&) = default;
#if !defined(SLUICE_OPERATIONS_HAVE_COPIES)
    operation_base(const operation_base&) = delete;  // an operation runs once: std::move it, or share(...) it
    operation_base& operator=(const operation_base&) = delete;
#else  // only in the conformance suite, which records each of its operations several times
    operation_base(const operation_base&) = default;
    operation_base& operator=(const operation_base&) = default;
#endif

    Derived&& self() { return static_cast<Derived&&>(*this); }
};

}  // namespace sluice

#include "sluice/op/and_then.hpp"
#include "sluice/op/first.hpp"
#include "sluice/op/or_else.hpp"
#include "sluice/op/tap.hpp"
#include "sluice/op/then.hpp"
#include "sluice/op/transform.hpp"
