// SPDX-License-Identifier: Apache-2.0
// The border of the C interface: exceptions become a status and the calling thread's text.
#pragma once

#include <exception>
#include <string>
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

template <typename T>
T& require(T* pointer, std::string_view function, std::string_view what) {
    if (pointer == nullptr) refuse(function, std::string(what) + " is null");
    return *pointer;
}

}  // namespace sluice::c
