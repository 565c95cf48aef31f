// SPDX-License-Identifier: Apache-2.0
// How a host thread waits for a device, or for a task.
#pragma once

#include <string_view>

namespace sluice {

// How a thread waits. The shorter the latency, the more of a core it takes.
enum class wait_mode {
    spin,   // polls without pause: the shortest latency, one core busy
    yield,  // polls, and lets other threads run in between
    block,  // sleeps until woken: no core busy, tens of microseconds later
};

std::string_view to_string(wait_mode mode) noexcept;  // "spin", "yield", "block"; costs O(1)

}  // namespace sluice
