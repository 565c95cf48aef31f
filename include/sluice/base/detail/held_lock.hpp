// SPDX-License-Identifier: Apache-2.0
// The rule that no thread holds a lock of the library while it waits for a device, and its check: each thread knows
// which locks it holds. The device may need another thread that wants the lock, and then nothing continues.
//
// A lock whose holder calls code that could wait is a noted_lock. Code that would wait asks holds_a_lock(), and gives
// the lock up first; each wait calls require_no_lock(). Locks that are held for a few moves of pointers, and those of
// condition variables, are not noted.
//
// Thread safety: all functions may be called on any thread, and concern the calling one.
#pragma once

#include <string_view>

namespace sluice::detail {

// The calling thread has taken, or gives up, a lock. The name lives for ever.
void note_lock(const char* name) noexcept;
void forget_lock(const char* name) noexcept;
bool holds_a_lock() noexcept;

// From here on a thread of this process that waits for a device and holds a lock ends the program, with the names of
// both. Called by the project's tests.
void check_locks_at_waits() noexcept;
// Before each wait for a device. Costs O(1).
void require_no_lock(std::string_view wait) noexcept;

template <typename Mutex>
class noted_lock {
public:
    explicit noted_lock(const char* name) noexcept : name_(name) {}

    void lock() {
        mutex_.lock();
        note_lock(name_);
    }
    bool try_lock() {
        const bool taken = mutex_.try_lock();
        if (taken) note_lock(name_);
        return taken;
    }
    void unlock() {
        forget_lock(name_);
        mutex_.unlock();
    }

private:
    Mutex mutex_;
    const char* const name_;
};

}  // namespace sluice::detail
