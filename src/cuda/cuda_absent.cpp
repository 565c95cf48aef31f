// SPDX-License-Identifier: Apache-2.0
// The CUDA backend in a build without the CUDA toolkit: finds no device.

#include "runtime/backends.hpp"
#include "sluice/base/error.hpp"
#include "sluice/cuda/foreign_streams.hpp"
#include "sluice/cuda/lending.hpp"
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
    submit_to(context.stream(), what_, theirs_, nullptr, location_);
    return {};
}

void cuda::event_operation::submit_to(stream on, kind what, void*, storage*, const source_location& location) {
    const bool records = what == kind::record_event || what == kind::record_interprocess_event;
    throw error(errc::unsupported, "events and streams of CUDA are for GPUs",
                {records ? "record_event" : "wait", on.owner().name(), location});
}

void cuda::lend_to(stream ours, CUstream_st*, std::span<storage* const>, const source_location& location) {
    throw error(errc::unsupported, "streams of CUDA are for GPUs", {"lend_to", ours.owner().name(), location});
}

void cuda::take_back_from(stream ours, CUstream_st*, std::span<storage* const>, const source_location& location) {
    throw error(errc::unsupported, "streams of CUDA are for GPUs", {"take_back_from", ours.owner().name(), location});
}

}  // namespace sluice
