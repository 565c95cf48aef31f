// SPDX-License-Identifier: Apache-2.0
// staying_work: a command that stays on its stream until its owner ends it, such as a network that stays on a GPU. The
// device must know of it: it ends it before it closes, and device::synchronize does not wait for it.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

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
    // Lets the command end soon. May be called several times. Takes no lock of the library.
    virtual void end() noexcept = 0;

protected:
    ~staying_work() = default;
};

// The staying work of a runtime's devices.
class staying_works {
public:
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
    bool has(const command_queue& queue) const noexcept {
        const std::lock_guard lock(mutex_);
        return std::ranges::any_of(all_, [&](const staying_work* each) { return &each->queue() == &queue; });
    }

private:
    mutable std::mutex mutex_;
    std::vector<staying_work*> all_;
};

// The list of the device's runtime.
staying_works& staying_works_of(device& on) noexcept;

}  // namespace detail
}  // namespace sluice
