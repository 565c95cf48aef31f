// SPDX-License-Identifier: Apache-2.0
// The CUDA backend in a build without the CUDA toolkit: finds no device.

#include "runtime/backends.hpp"
#include "sluice/base/error.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice {

found_devices find_cuda_devices(const runtime_options& options) {
    constexpr const char* why = "this build of Sluice has no CUDA backend";
    if (!options.gpus.empty())
        throw error(errc::device_not_found, std::string("runtime_options::gpus names GPUs: ") + why);
    return {{}, why};
}

std::size_t resident_on_gpu(device&, const launch_command&, const error_context& context) {
    throw error(errc::unsupported, "this build of Sluice has no CUDA backend", context);
}

cuda::event_operation::output cuda::event_operation::submit(execution_context& context) && {
    static_cast<void>(theirs_);
    throw error(errc::unsupported, "events and streams of CUDA are for GPUs",
                {what_ == kind::record_event ? "record_event" : "wait", context.device().name(), location_});
}

}  // namespace sluice
