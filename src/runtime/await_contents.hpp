// SPDX-License-Identifier: Apache-2.0
// await_contents: blocks until memory that leaves Sluice may be used by others.
#pragma once

#include "sluice/base/error.hpp"
#include "sluice/runtime/storage.hpp"

namespace sluice::detail {

// Blocks until no command uses the memory, or until no command writes it when others only read it. Throws what made
// the contents fail; errc::graph_refused for memory of a graph that is being recorded; errc::invalid_argument on a
// worker thread of the device.
void await_contents(storage& memory, bool is_written, const error_context& context);

}  // namespace sluice::detail
