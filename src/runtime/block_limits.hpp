// SPDX-License-Identifier: Apache-2.0
// What a block of a launch may have at most.
#pragma once

#include <cstddef>

#include "sluice/runtime/interpreter.hpp"

namespace sluice::detail {

// CUDA's limit, which holds on a CPU too.
inline constexpr int most_block_threads = 1024;

// Of a device whose blocks run on the host: as of an H100 or H200, so that what it runs runs there too.
inline void set_host_block_limits(device_properties& of) noexcept {
    of.max_threads_per_block = most_block_threads;
    of.max_shared_bytes_per_block = std::size_t{227} * 1024;
}

}  // namespace sluice::detail
