// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/serial_executor.hpp"

#include <utility>

#include "runtime/completion_service.hpp"

namespace sluice::detail {

serial_executor::serial_executor(device& home) noexcept
    : work_item([](work_item& self) noexcept { static_cast<serial_executor&>(self).run_posted(); }),
      home_(home),
      alive_(home) {}

// NOLINTNEXTLINE(bugprone-exception-escape): shared_from_this does not throw, this object is in a shared_ptr
void serial_executor::post(work_item& item) noexcept {
    const auto alive = shared_from_this();  // the item may run, and drop all other references, before this returns
    {
        const std::lock_guard lock(mutex_);
        posted_.push(item);
        if (inside_ != std::thread::id() || !prepare_to_send()) return;
    }
    send();
}

bool serial_executor::prepare_to_send() noexcept {
    if (posted_.empty() || sent_ != nullptr) return false;
    sent_ = shared_from_this();
    return true;
}

// Called without the lock: when the service is closed, posted items run during this call.
void serial_executor::send() noexcept { home_.service().post(*this); }

bool serial_executor::enter() noexcept {
    std::unique_lock lock(mutex_);
    if (inside_ == std::this_thread::get_id()) return false;
    ++entering_;
    vacant_.wait(lock, [this] { return inside_ == std::thread::id(); });
    --entering_;
    inside_ = std::this_thread::get_id();
    return true;
}

bool serial_executor::mark_vacant() noexcept {
    inside_ = {};
    if (entering_ != 0) {
        vacant_.notify_one();  // the thread that enters sends the posted items when it leaves
        return false;
    }
    return prepare_to_send();
}

// NOLINTNEXTLINE(bugprone-exception-escape): as above
void serial_executor::leave() noexcept {
    const auto alive = shared_from_this();
    {
        const std::lock_guard lock(mutex_);
        if (!mark_vacant()) return;
    }
    send();
}

void serial_executor::run_posted() noexcept {
    std::shared_ptr<serial_executor> alive;
    bool sends = false;
    {
        std::unique_lock lock(mutex_);
        alive = std::move(sent_);
        if (inside_ != std::thread::id()) return;  // the thread that is inside sends the items again
        inside_ = std::this_thread::get_id();
        while (entering_ == 0) {
            work_item* const item = posted_.pop();
            if (item == nullptr) break;
            lock.unlock();
            item->run();
            lock.lock();
        }
        sends = mark_vacant();
    }
    if (sends) send();
}

}  // namespace sluice::detail
