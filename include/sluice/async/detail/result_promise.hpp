// SPDX-License-Identifier: Apache-2.0
// The part of a coroutine's promise that keeps how the coroutine ended: with a value, a reference, nothing, or an
// exception.
//
// Thread safety: none; a completion orders the coroutine's end before take().
#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace sluice::detail {

template <typename T>
class result_promise {
    static_assert(!std::is_rvalue_reference_v<T>, "a coroutine that outlives its result returns values or lvalues");

public:
    template <std::convertible_to<T> U = T>
    void return_value(U&& value) {
        result_.template emplace<1>(std::forward<U>(value));
    }
    // emplace is not noexcept, but an std::exception_ptr is made without an exception.
    void unhandled_exception() noexcept {  // NOLINT(bugprone-exception-escape)
        result_.template emplace<2>(std::current_exception());
    }

    // The value, moved out, or the exception, thrown. Once.
    T take() {
        if (auto* const failure = std::get_if<2>(&result_)) std::rethrow_exception(std::move(*failure));
        return std::move(*std::get_if<1>(&result_));
    }
    bool failed() const noexcept { return result_.index() == 2; }

private:
    std::variant<std::monostate, T, std::exception_ptr> result_;
};

template <typename T>
class result_promise<T&> {
public:
    void return_value(T& value) noexcept { value_ = std::addressof(value); }
    void unhandled_exception() noexcept { failure_ = std::current_exception(); }

    T& take() {
        if (failure_) std::rethrow_exception(std::move(failure_));
        return *value_;
    }
    bool failed() const noexcept { return failure_ != nullptr; }

private:
    T* value_ = nullptr;
    std::exception_ptr failure_;
};

template <>
class result_promise<void> {
public:
    void return_void() noexcept {}
    void unhandled_exception() noexcept { failure_ = std::current_exception(); }

    void take() {
        if (failure_) std::rethrow_exception(std::move(failure_));
    }
    bool failed() const noexcept { return failure_ != nullptr; }

private:
    std::exception_ptr failure_;
};

}  // namespace sluice::detail
