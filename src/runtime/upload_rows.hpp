// SPDX-License-Identifier: Apache-2.0
// The way of an upload: directly, through a pinned block, or through the chunks of the staging pool.
#pragma once

#include "sluice/runtime/stream.hpp"

namespace sluice::detail {

// Copies from host memory to `to`, which contains the destination. When the copy has no host_owner, the host memory is
// not needed after the call. What blocks: see transfer.hpp.
void upload_rows(stream on, const command_info& info, storage& to, const copy_command& what);

}  // namespace sluice::detail
