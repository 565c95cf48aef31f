// SPDX-License-Identifier: Apache-2.0
// streaming_copy: copies host memory that a device reads next.
//
// Larger copies go past the caches: a copy engine reads memory faster than lines that a core has written and still
// holds. Small ones are faster through the caches.
#pragma once

#include <cstddef>

namespace sluice::detail {

// As std::memcpy. After the return, and a release operation of this thread, all threads and devices see the bytes.
void streaming_copy(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace sluice::detail
