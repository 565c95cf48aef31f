// SPDX-License-Identifier: Apache-2.0
// Closures of commands: trivially copyable objects that interpreters copy byte by byte. Recorders compare them byte by
// byte to find out which bytes are addresses.
#pragma once

#include <type_traits>

#include "sluice/runtime/command.hpp"

namespace sluice::detail {

// Whether the compiler can set a T's padding bytes to 0. clang 19 cannot. g++ can, but in an object with an array of
// classes that is longer than 64 bytes it also clears members (seen with 12.2: see closure_tests.cpp). So a larger type
// says itself that it has no such array, by a specialization.
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
inline constexpr bool compiler_clears_padding = true;
#else
inline constexpr bool compiler_clears_padding = false;
#endif
template <typename T>
inline constexpr bool can_clear_padding = compiler_clears_padding && sizeof(T) <= 64;

// Sets the padding bytes to 0, so that equal objects have equal bytes; does nothing where the compiler cannot do that.
// An operation with such an object may then be recorded more often than necessary.
template <typename T>
void clear_padding([[maybe_unused]] T& object) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
    if constexpr (can_clear_padding<T>) __builtin_clear_padding(&object);
#endif
}

// Points a command to its closure, which must outlive the call that submits it.
template <typename Command, typename Closure>
void set_closure(Command& command, Closure& closure) noexcept {
    clear_padding(closure);
    command.closure = &closure;
    command.closure_bytes = sizeof(Closure);
}

template <typename Closure>
library_command library_call_with(void (*call)(const native_stream&, const void*), Closure& closure) noexcept {
    library_command command{call};
    set_closure(command, closure);
    return command;
}

}  // namespace sluice::detail
