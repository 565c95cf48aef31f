// What an operation is.
//
// An operation is a move-only value that describes work. Nothing happens until it is submitted to an
// execution context; submitting consumes it, hands its commands to the context's stream and returns its
// output. It does not wait: an output such as a tensor may be named, passed on and dropped long before
// the device has made its contents.
//
// A type is an operation when it derives from operation_base and has
//     using output = ...;                                // what submit returns
//     output submit(execution_context& context) &&;      // throws on failure, having lost nothing
//     work_estimate estimate() const;                    // how much device work it is, roughly
// (Staged operations differ: see is_staged.)
// An output that is a std::tuple is spread: its elements arrive as separate arguments.
//
// Operation types are classes with constructors, never aggregates: g++ 12 destroys aggregate temporaries
// twice in a co_await expression.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice {

class execution_context;

// A rough measure of device work, known before submission. It decides only whether a branch is worth a
// stream of its own.
struct work_estimate {
    std::size_t commands = 0;
    std::size_t bytes = 0;

    friend constexpr work_estimate operator+(work_estimate a, work_estimate b) {
        return {a.commands + b.commands, a.bytes + b.bytes};
    }
};

namespace detail {
struct operation_tag {};
struct staged_access;  // what runs operations stage by stage

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

template <typename Function, typename Output>
struct can_spread : std::is_invocable<Function, Output> {};
template <typename Function, typename... Ts>
struct can_spread<Function, std::tuple<Ts...>> : std::is_invocable<Function, Ts...> {};

template <typename Function, typename Output>
using spread_result = decltype(spread(std::declval<Function>(), std::declval<Output>()));
}  // namespace detail

template <typename T>
concept operation = std::derived_from<std::remove_cvref_t<T>, detail::operation_tag>;

template <operation Op>
using output_of = typename std::remove_cvref_t<Op>::output;

namespace detail {
template <typename Op>
constexpr bool declares_staged() {
    if constexpr (requires { Op::is_staged; }) {
        return Op::is_staged;
    } else {
        return false;
    }
}
}  // namespace detail

// Whether the host must decide something between parts of the operation, after the device has come that far: to
// recover, to try again, to give up (or_else, retry, timeout ...). Such an operation has no submit; spawn and sync run
// it stage by stage. It cannot be compiled into a graph.
template <operation Op>
inline constexpr bool is_staged = detail::declares_staged<std::remove_cvref_t<Op>>();

// Gives every operation its combinators as members. Each consumes the operation, so it must be an rvalue:
// write std::move(op).and_then(...) for one that has a name.
template <typename Derived>
class operation_base : public detail::operation_tag {
public:
    // Continues with the operation that f returns for this one's output. f runs on the submitting thread,
    // at submission.
    template <typename Function>
    auto and_then(Function f) &&;
    template <typename Function>
    auto and_then(Function) const& = delete;  // an operation is consumed: std::move it

    // Maps the output with f, a function on values. f runs on the submitting thread, at submission.
    template <typename Function>
    auto transform(Function f) &&;
    template <typename Function>
    auto transform(Function) const& = delete;  // an operation is consumed: std::move it

    // Recovers: when the operation has failed, where it was submitted or on the device, goes on with the operation
    // that f returns for the std::exception_ptr. See or_else.hpp.
    template <typename Function>
    auto or_else(Function f) &&;
    template <typename Function>
    auto or_else(Function) const& = delete;  // an operation is consumed: std::move it

protected:
    operation_base() = default;
    ~operation_base() = default;
    operation_base(operation_base&&) = default;
    operation_base& operator=(operation_base&&) = default;
    operation_base(const operation_base&) = default;  // only for derived types that opt into copies (share)
    operation_base& operator=(const operation_base&) = default;

private:
    Derived&& self() { return static_cast<Derived&&>(*this); }
};

}  // namespace sluice

#include "sluice/op/and_then.hpp"
#include "sluice/op/or_else.hpp"
#include "sluice/op/transform.hpp"
