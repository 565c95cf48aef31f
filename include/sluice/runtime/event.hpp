// SPDX-License-Identifier: Apache-2.0
// event: a point on a stream, with a time stamp that the device takes.
//
//     event begin = event::record(on);
//     ...
//     event end = event::record(on);
//     other.order_after(end.point());                // commands on `other` from here on run after the event
//     const auto took = elapsed(begin, end);         // blocks until the device has reached both
//
// Data that commands name is in order without events.
//
// All members take constant time, without the waiting; record makes a time stamp on the device, and has_passed and
// elapsed ask it.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "sluice/runtime/detail/wait_checks.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice {

class event {
public:
    // The point after everything submitted to the stream so far. Does not block.
    static event record(stream on) {
        std::unique_ptr<timed_mark> mark = on.mark();
        return event(std::move(mark), on.point(on.issued()));
    }

    // Whether the stream is known to have reached the event. Asks the device; does not block.
    bool has_passed() const noexcept { return mark_->has_passed(); }
    // The place of the event, for stream::order_after.
    stream_point point() const noexcept { return point_; }

    // Blocks until the stream has reached the event. Throws when the device has faulted; and in a host call of the
    // device, where the wait might never end, errc::invalid_argument.
    void wait() {
        detail::require_may_wait(point_, "event::wait");
        mark_->wait();
    }

    // The device's time from `earlier` to `later`, both of one device. Blocks until the device has reached both.
    // Throws as wait() does, and std::bad_cast for events of two kinds of devices.
    friend std::chrono::duration<double, std::micro> elapsed(event& earlier, event& later) {
        earlier.wait();
        later.wait();
        return later.mark_->since(*earlier.mark_);
    }

private:
    event(std::unique_ptr<timed_mark> mark, stream_point point) : mark_(std::move(mark)), point_(point) {}

    std::unique_ptr<timed_mark> mark_;
    stream_point point_;
};

}  // namespace sluice
