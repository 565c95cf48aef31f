// SPDX-License-Identifier: Apache-2.0
// run_kernel: a kernel on a thread of ours.
#pragma once

#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

// Runs the host function of a launch. An access out of range, or a wrong place of sync(), is thrown with the kernel's
// name, its device, and the line that requested the launch.
inline void run_kernel(void (*function)(const void*), const void* closure, std::string_view name, const device& on,
                       const source_location& location) {
    try {
        function(closure);
    } catch (const error& mistake) {
        const bool is_of_kernel = mistake.code() == errc::out_of_range || mistake.code() == errc::invalid_argument;
        if (!is_of_kernel || !mistake.operation().empty()) throw;
        throw error(mistake.code(), mistake.what(), {name, on.name(), location});
    }
}

}  // namespace sluice::detail
