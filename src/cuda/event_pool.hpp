// SPDX-License-Identifier: Apache-2.0
// Events with time stamps, reused by the marks of a device.
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "cuda/api/runtime.hpp"

namespace sluice::cuda {

class event_pool {
public:
    // The device must be current.
    api::event_handle take() {
        {
            const std::lock_guard lock(mutex_);
            if (!kept_.empty()) {
                api::event_handle taken = std::move(kept_.back());
                kept_.pop_back();
                return taken;
            }
        }
        return api::create_event(api::event_use::timing);
    }

    // The event's recording need not have completed: the next recording replaces it.
    void put_back(api::event_handle event) noexcept {
        try {
            const std::lock_guard lock(mutex_);
            if (kept_.size() < most_kept) kept_.push_back(std::move(event));
        } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory: the event is destroyed instead
        }
    }

private:
    static constexpr std::size_t most_kept = 4096;
    std::mutex mutex_;
    std::vector<api::event_handle> kept_;
};

}  // namespace sluice::cuda
