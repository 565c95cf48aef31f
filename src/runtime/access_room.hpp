// SPDX-License-Identifier: Apache-2.0
// The room of an access_notice in a kernel's shared memory.
#pragma once

#include <cstddef>

namespace sluice {
class device;
}

namespace sluice::detail {

// The dynamic shared memory of a launch whose kernel checks its bounds: with the notice where the device has room for
// it, else the same.
std::size_t shared_bytes_with_notice(const device& on, std::size_t shared_bytes) noexcept;

}  // namespace sluice::detail
