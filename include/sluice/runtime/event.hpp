// event: a moment on a stream, with a time stamp taken by the device. For measuring; never needed for
// ordering.
#pragma once

#include <chrono>
#include <memory>

#include "sluice/runtime/stream.hpp"

namespace sluice {

class event {
public:
    // After everything submitted to the stream so far. Does not block.
    static event record(stream& on) { return event(on.mark()); }

    // Blocks until the stream has come to it. Throws when the device has faulted.
    void await() { mark_->await(); }

    // The device's time from `earlier` to `later`, both of one device. Blocks until both have come.
    friend std::chrono::duration<double, std::micro> elapsed(event& earlier, event& later) {
        earlier.await();
        later.await();
        return later.mark_->since(*earlier.mark_);
    }

private:
    explicit event(std::unique_ptr<timed_mark> mark) : mark_(std::move(mark)) {}
    std::unique_ptr<timed_mark> mark_;
};

}  // namespace sluice
