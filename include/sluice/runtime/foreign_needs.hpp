// foreign_needs: what the commands of a queue need of other devices: when such a device fails, they never end. One
// entry for each queue that is waited for, and one for each device whose memory is used; later needs of the same widen
// it.
//
// Thread safety: all members may be called on any thread. Nothing is called with its lock held but what for_each is
// given.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "sluice/runtime/spin_lock.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice {
class device;
}

namespace sluice::detail {

class foreign_needs {
public:
    struct need {
        device* on;
        stream_point awaited;  // what is waited for; nowhere: the device's memory is used, up to the command's own end
        ticket by;             // the last command that needs it
    };

    // Makes room for one more, which then cannot fail to be noted.
    void expect_one() {
        const std::lock_guard lock(guard_);
        if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 4);
    }
    void note(const need& one) noexcept {
        const std::lock_guard lock(guard_);
        for (need& each : all_) {
            if (each.on != one.on || each.awaited.where != one.awaited.where) continue;
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
