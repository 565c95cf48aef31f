// SPDX-License-Identifier: Apache-2.0
// Checks whether the calling thread may wait for a device. A wait on a thread that the device needs in order to
// continue would never end, so it is refused: with errc::invalid_argument, and the name of the call that waits.
#pragma once

#include <string_view>

namespace sluice {
class device;
class executor;
struct stream_point;
}  // namespace sluice

namespace sluice::detail {

class submission;

// Throws on a worker thread of the device or, for a GPU, in any host call of a GPU.
void require_may_wait(device& home, std::string_view operation);
// The same for commands on that stream that are not known to be complete. Throws also on a worker thread of another
// device for which commands of the stream's device wait.
void require_may_wait(const stream_point& point, std::string_view operation);
void require_may_wait(const submission& submitted, std::string_view operation);
// Throws also on the runtime's completion thread, which resumes waiters and submits the later parts of host-driven
// operations.
void require_may_wait_host_driven(device& home, std::string_view operation);
// For a coroutine that is about to be suspended until the submission is complete, while the calling thread waits for
// the coroutine: throws when the coroutine would be resumed by this thread, or when the device needs this thread.
// `target`: where the coroutine continues; null: on the completion thread.
void require_may_await(const submission& submitted, const executor* target);

}  // namespace sluice::detail
