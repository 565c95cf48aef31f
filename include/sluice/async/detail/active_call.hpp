// SPDX-License-Identifier: Apache-2.0
// active_call: for await_suspend functions that start something which may end at any moment: inside the call, later, or
// on another thread while the call has not returned yet. When it ends inside the call, the coroutine is not suspended.
// When it ends elsewhere, the coroutine is resumed there at once, and the caller reads and writes nothing of it any
// more.
#pragma once

namespace sluice::detail {

// Lives on the stack of the thread that makes the call. `What` is what was started; it keeps a pointer to the call.
template <typename What>
class active_call {
public:
    explicit active_call(const What* started) noexcept : started_(started), outer_(innermost_) { innermost_ = this; }
    active_call(const active_call&) = delete;  // what was started points to it
    active_call& operator=(const active_call&) = delete;
    ~active_call() { innermost_ = outer_; }

    bool is_over() const noexcept { return has_ended_; }

    // What was started with `known` has ended. True: inside that call, and the call knows it now.
    static bool end_inside(const active_call* known, const What* started) noexcept {
        // Only the thread that made the call, and has not returned from it, passes: both pointers agree, and no other
        // thread's call can have the address of one on this stack.
        active_call* const here = innermost_;
        if (here == nullptr || here != known || here->started_ != started) return false;
        here->has_ended_ = true;
        return true;
    }

private:
    const What* const started_;
    active_call* const outer_;
    bool has_ended_ = false;

    static inline thread_local active_call* innermost_ = nullptr;
};

}  // namespace sluice::detail
