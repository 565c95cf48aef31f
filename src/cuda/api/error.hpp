// SPDX-License-Identifier: Apache-2.0
// The mapping of CUDA's error codes.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "sluice/base/error.hpp"

namespace sluice::cuda::api {

// Codes are cudaError_t values.
const std::error_category& category() noexcept;

// Whether the device accepts no more work after this error. Polls, waits, launches and foreign streams ask this
// function, and nothing else decides it.
bool is_fatal(int code) noexcept;
inline bool is_fatal(const device_error& error) noexcept {
    return error.code().category() == category() && is_fatal(error.code().value());
}

// Throws device_error for a code other than success. `call` is the CUDA function's name.
[[noreturn]] void fail(int code, std::string_view call, const error_context& context);

}  // namespace sluice::cuda::api
