// SPDX-License-Identifier: Apache-2.0
// A copy, of one row or of several, in the driver's form.
#pragma once

#include "cuda/api/driver.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice::cuda::api {

inline CUDA_MEMCPY3D copy_parameters(const copy_command& command) noexcept {
    const copied_rows& rows = command.rows;
    const bool is_one = rows.count == 1;
    CUDA_MEMCPY3D made{};
    const bool from_host = command.direction == copy_direction::host_to_device;
    made.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (from_host) {
        made.srcHost = command.source;
    } else {
        made.srcDevice = address(command.source);
    }
    const bool to_host = command.direction == copy_direction::device_to_host;
    made.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (to_host) {
        made.dstHost = command.destination;
    } else {
        made.dstDevice = address(command.destination);
    }
    made.srcPitch = is_one ? 0 : rows.source_pitch;
    made.dstPitch = is_one ? 0 : rows.destination_pitch;
    made.srcHeight = made.dstHeight = is_one ? 0 : rows.count;
    made.WidthInBytes = command.bytes;
    made.Height = rows.count;
    made.Depth = 1;
    return made;
}

}  // namespace sluice::cuda::api
