// SPDX-License-Identifier: Apache-2.0
// staying_work: a command that stays on its stream until its owner ends it, such as a network that stays on a GPU. The
// device must know of it: it ends it before it closes, and device::synchronize does not wait for it.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <mutex>
#include <vector>

#include "sluice/runtime/ticket.hpp"

namespace sluice {

class command_queue;
class device;

namespace detail {

class staying_work {
public:
    staying_work() = default;
    staying_work(const staying_work&) = delete;  // the list points to it
    staying_work& operator=(const staying_work&) = delete;

    // The stream that nothing but this work uses.
    virtual const command_queue& queue() const noexcept = 0;
    // The last ticket of that stream before this work.
    virtual ticket before() const noexcept = 0;
    // Lets the command end soon. May be called several times. Takes no lock of the library.
    virtual void end() noexcept = 0;

protected:
    ~staying_work() = default;
};

// The staying work of a runtime's devices.
class staying_works {
public:
    // Before the work is submitted.
    void add(staying_work& one) {
        const std::lock_guard lock(mutex_);
        all_.push_back(&one);
    }
    // Afterwards nothing calls it.
    void remove(const staying_work& one) noexcept {
        const std::lock_guard lock(mutex_);
        std::erase(all_, &one);
    }
    void end_all_of(const device& on) noexcept;
    // Of the tickets that this stream has issued, the last one to wait for: of work that stays, only its owner knows
    // the end.
    ticket last_to_wait_for(const command_queue& queue) const noexcept;

private:
    mutable std::mutex mutex_;
    std::vector<staying_work*> all_;
};

// The list of the device's runtime.
staying_works& staying_works_of(device& on) noexcept;

}  // namespace detail
}  // namespace sluice
