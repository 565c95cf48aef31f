// SPDX-License-Identifier: Apache-2.0
// host_call_end: what has to wait until the host call that the calling thread runs has returned. A host call may drop a
// runtime, but the runtime's streams complete only after the call. And it may never return: when it ends the process,
// nothing that waits here happens, and no other thread calls the driver while the process ends.
#pragma once

namespace sluice::detail {

class host_call_end {
public:
    // What is to be done; belongs to the caller of add().
    struct item {
        void (*run)(item& self) noexcept;
        item* next = nullptr;
    };

    // Around a host call, on the thread that runs it.
    host_call_end() noexcept : outer_(innermost()) { innermost() = this; }
    host_call_end(const host_call_end&) = delete;  // belongs to the thread
    host_call_end& operator=(const host_call_end&) = delete;
    ~host_call_end() {
        innermost() = outer_;
        for (item* each = first_; each != nullptr;) {
            item& now = *each;
            each = now.next;  // before it is destroyed
            now.run(now);
        }
    }

    // Runs the item at the end of the thread's host call; false outside of one.
    static bool add(item& later) noexcept {
        host_call_end* outermost = innermost();
        if (outermost == nullptr) return false;
        while (outermost->outer_ != nullptr) outermost = outermost->outer_;
        later.next = outermost->first_;
        outermost->first_ = &later;
        return true;
    }

private:
    static host_call_end*& innermost() noexcept {
        thread_local host_call_end* of_this_thread = nullptr;
        return of_this_thread;
    }

    host_call_end* const outer_;
    item* first_ = nullptr;
};

}  // namespace sluice::detail
