// SPDX-License-Identifier: Apache-2.0
// run_kernel: a kernel on a thread of ours.
#pragma once

#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

// Runs the host function of a launch. An access out of range is thrown with the kernel's name, its device, and the line
// that requested the launch.
inline void run_kernel(void (*function)(const void*), const void* closure, std::string_view name, const device& on,
                       const source_location& location) {
    try {
        function(closure);
    } catch (const error& access) {
        if (access.code() != errc::out_of_range || !access.operation().empty()) throw;
        throw error(errc::out_of_range, access.what(), {name, on.name(), location});
    }
}

}  // namespace sluice::detail
