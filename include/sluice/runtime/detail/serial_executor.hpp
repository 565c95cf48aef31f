// SPDX-License-Identifier: Apache-2.0
// serial_executor: runs the pieces of one host-driven operation one after the other, never two at a time.
//
// Posted items run in order on the completion thread of the device's runtime, while no other thread is inside. A thread
// enters to run the first part of the operation, or to end it; items that are posted meanwhile run after it has left.
//
// Thread safety: all members may be called on any thread. Owned by std::shared_ptr; it keeps itself alive while it has
// items to run.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "sluice/async/detail/work_queue.hpp"
#include "sluice/async/executor.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::detail {

class serial_executor final : public executor, public std::enable_shared_from_this<serial_executor>, private work_item {
public:
    explicit serial_executor(device& home) noexcept;

    void post(work_item& item) noexcept override;

    // Blocks until no thread is inside; then the caller is inside until it leaves. Returns false when the caller is
    // inside already, in a function of the operation.
    bool enter() noexcept;
    void leave() noexcept;

private:
    void run_posted() noexcept;
    // With the lock held: no thread is inside from now on. Returns whether the caller must send the posted items to the
    // completion thread.
    bool mark_vacant() noexcept;
    bool prepare_to_send() noexcept;
    void send() noexcept;

    device& home_;
    const runtime_ref alive_;
    std::mutex mutex_;  // guards all members below; held for a few pointer moves
    std::condition_variable vacant_;
    std::thread::id inside_;
    int entering_ = 0;
    work_queue posted_;
    std::shared_ptr<serial_executor> sent_;  // itself, from send() until the completion thread runs it
};

// The thread is inside the executor while this object lives.
class serial_entry {
public:
    explicit serial_entry(serial_executor& target) noexcept : target_(target), has_entered_(target.enter()) {}
    serial_entry(const serial_entry&) = delete;  // it undoes what it did
    serial_entry& operator=(const serial_entry&) = delete;
    ~serial_entry() {
        if (has_entered_) target_.leave();
    }
    // False: the thread was inside before, because a function of the operation is running on it.
    explicit operator bool() const noexcept { return has_entered_; }

private:
    serial_executor& target_;
    const bool has_entered_;
};

}  // namespace sluice::detail
