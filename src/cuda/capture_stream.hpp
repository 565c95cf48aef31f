// SPDX-License-Identifier: Apache-2.0
// capture_stream: a stream of a GPU for work on graphs: captures of library calls, and uploads.
#pragma once

#include "sluice/runtime/device.hpp"

struct CUstream_st;

namespace sluice::cuda {

// A stream of the device for capturing, leased so that no other thread uses it. The constructor waits for all its
// earlier commands, so no other stream has to wait for it during the capture.
class capture_stream {
public:
    explicit capture_stream(device& of) : lease_(of) {
        of.throw_if_poisoned();
        // Past command_queue::wait, which refuses threads that hold a lock: a graph is updated with its lock held. This
        // wait is short: no code submits to the stream any more, and most streams that can be leased are idle.
        command_queue& queue = lease_->queue();
        queue.interpreter().wait(queue.issued(), of.default_wait_mode());
    }

    native_stream native() const noexcept { return lease_->native(); }
    CUstream_st* get() const noexcept { return static_cast<CUstream_st*>(native().handle); }

private:
    stream_lease lease_;
};

}  // namespace sluice::cuda
