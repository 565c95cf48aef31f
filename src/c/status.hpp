// SPDX-License-Identifier: Apache-2.0
// The border of the C interface: exceptions become a status and the calling thread's text.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/c/sluice.h"

namespace sluice::c {

struct failure {
    sluice_status status = SLUICE_OK;
    std::string text = {};
};

// Of the exception that is being handled. Without memory for the text, it is empty.
failure current_failure() noexcept;

// Sets the thread's text, and returns the status.
sluice_status report(const failure& what) noexcept;

// Calls f; returns SLUICE_OK, or reports what f throws.
template <typename Function>
sluice_status guarded(Function&& f) noexcept {
    try {
        std::forward<Function>(f)();
        return SLUICE_OK;
    } catch (...) {
        return report(current_failure());
    }
}

// `function` is the name of the C function.
[[noreturn]] inline void refuse(std::string_view function, std::string_view why, errc code = errc::invalid_argument) {
    throw error(code, why, {function});
}

// Also refuses an object that was made before this process was forked (made_here.hpp).
template <typename T>
T& require(T* pointer, std::string_view function, std::string_view what) {
    if (pointer == nullptr) refuse(function, std::string(what) + " is null");
    if constexpr (requires { pointer->birth.require(function, what); }) pointer->birth.require(function, what);
    return *pointer;
}

// A wrong number often shows as a wild one, which would be work without end or a crash.
inline void require_at_most(std::size_t count, std::size_t most, std::string_view function, std::string_view what) {
    if (count <= most) return;
    refuse(function, std::string(what) + ": " + std::to_string(count) + " are too many; at most " +
                         std::to_string(most) + " are possible");
}
// No caller means a longer list.
constexpr std::size_t longest_list = std::size_t{1} << 28;
inline void require_count(std::size_t count, std::string_view function, std::string_view what) {
    require_at_most(count, longest_list, function, what);
}

}  // namespace sluice::c
