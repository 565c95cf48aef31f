// SPDX-License-Identifier: Apache-2.0
// event: a point on a stream, with a time stamp that the device takes. For measurements; never needed for ordering.
#pragma once

#include <chrono>
#include <memory>

#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

class event {
public:
    // The point after everything submitted to the stream so far. Does not block.
    static event record(stream on) { return event(on.mark()); }

    // Blocks until the stream has reached the event. Throws when the device has faulted.
    void wait() { mark_->wait(); }

    // The device's time from `earlier` to `later`, both of one device. Blocks until the device has reached both.
    friend std::chrono::duration<double, std::micro> elapsed(event& earlier, event& later) {
        earlier.wait();
        later.wait();
        return later.mark_->since(*earlier.mark_);
    }

private:
    explicit event(std::unique_ptr<timed_mark> mark) : mark_(std::move(mark)) {}
    std::unique_ptr<timed_mark> mark_;
};

}  // namespace sluice
