// SPDX-License-Identifier: Apache-2.0
// Checks whether the calling thread may wait for a device. A wait on a thread that the device needs in order to
// continue would never end, so it is refused.
#pragma once

namespace sluice {
class device;
}

namespace sluice::detail {

// Throws errc::invalid_argument on a worker thread of the device.
void require_may_wait(device& home);
// Throws also on the runtime's completion thread, which resumes waiters and submits the later parts of host-driven
// operations.
void require_may_wait_host_driven(device& home);

}  // namespace sluice::detail
