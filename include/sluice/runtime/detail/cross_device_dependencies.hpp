// SPDX-License-Identifier: Apache-2.0
// cross_device_dependencies: what the commands of a queue need from other devices. When such a device fails, the
// commands never end. There is one entry for each awaited queue and one for each device whose memory is used; later
// needs of the same kind extend the entry.
//
// Thread safety: all members may be called on any thread. Only the function given to for_each runs with the lock held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "sluice/base/detail/spin_lock.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {
class device;
}

namespace sluice::detail {

class cross_device_dependencies {
public:
    struct need {
        device* on;
        stream_point awaited;  // the awaited point; null: the command uses the device's memory until it completes
        ticket by;             // the last command that has this need
    };

    // Reserves room for `count` more entries, so that note() cannot fail for them.
    void expect(std::size_t count) {
        const std::lock_guard lock(guard_);
        if (all_.capacity() - all_.size() < count) all_.reserve(2 * all_.size() + count + 3);
    }
    void note(const need& one) noexcept {
        const std::lock_guard lock(guard_);
        for (need& each : all_) {
            if (each.on != one.on || each.awaited.queue != one.awaited.queue) continue;
            each.awaited.upto = std::max(each.awaited.upto, one.awaited.upto);
            each.by = std::max(each.by, one.by);
            return;
        }
        all_.push_back(one);
    }
    template <typename Function>
    void for_each(Function&& f) const {
        const std::lock_guard lock(guard_);
        for (const need& each : all_) f(each);
    }

private:
    mutable spin_lock guard_;
    std::vector<need> all_;
};

}  // namespace sluice::detail
