// SPDX-License-Identifier: Apache-2.0
// Limits of launches whose blocks run at the same time: clusters and cooperative launches.
#pragma once

#include <cstddef>

#include "sluice/base/error.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice::detail {

// Throws errc::invalid_argument for a block without threads or beyond CUDA's limits, and for more shared memory than
// the device has.
void require_block(const device& on, const launch_extent& block, std::size_t shared_bytes,
                   const error_context& context);

// Whether the blocks of a cluster, or all of them, run at the same time.
inline bool is_group(const launch_command& command) noexcept {
    return command.cooperative || command.cluster.x != 1 || command.cluster.y != 1 || command.cluster.z != 1;
}

// Throws when the device cannot run such a launch: errc::unsupported for one without clusters or cooperative launches,
// errc::invalid_argument for a cluster or a grid beyond a limit.
void require_group(device& on, const launch_command& command, const error_context& context);

// How many blocks of such a launch, whose grid does not count, run at the same time on an idle device.
std::size_t resident_blocks(device& on, const launch_command& like, const error_context& context);

}  // namespace sluice::detail
