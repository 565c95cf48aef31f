// SPDX-License-Identifier: Apache-2.0
// Calls of a backend outside its streams, which may be the first to meet a fault of the device.
#pragma once

#include <exception>
#include <system_error>

#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

// Whether the device accepts no more work after it: backends' categories say so of their codes.
inline bool ends_device(const device_error& failure) noexcept {
    return failure.code().default_error_condition() ==
           std::error_condition(static_cast<int>(errc::device_failed), sluice_category());
}

// For a handler that has caught the failure, without locks. The streams know the cause where one of them has commands
// on the device; where none has, the failure is the cause. Throws the cause if the device has failed, now or before.
inline void note_failure(device& of, const device_error& failure) {
    of.poll();
    if (ends_device(failure) && !of.is_poisoned()) of.poison(std::current_exception());
    of.throw_if_poisoned();
}

}  // namespace sluice::detail
