// active_call: for await_suspend functions that start something which may be over at any moment: inside the call,
// later, or on another thread while the call has not returned yet. Over inside, the coroutine is not suspended at all;
// over elsewhere, it is resumed there, at once, and whoever made the call touches nothing of it any more.
#pragma once

namespace sluice::detail {

// Lives on the stack of the thread that makes the call. `What` is what was started; it keeps a pointer to the call.
template <typename What>
class active_call {
public:
    explicit active_call(const What* started) noexcept : who_(started), outer_(innermost_) { innermost_ = this; }
    active_call(const active_call&) = delete;  // what was started points to it
    active_call& operator=(const active_call&) = delete;
    ~active_call() { innermost_ = outer_; }

    bool is_over() const noexcept { return is_over_; }

    // What was started with `known` is over. True: inside that call, which is told.
    static bool end_inside(const active_call* known, const What* who) noexcept {
        // Only the thread that made the call, and has not returned from it, passes: both pointers agree, and no other
        // thread's call can have the address of one on this stack.
        active_call* const here = innermost_;
        if (here == nullptr || here != known || here->who_ != who) return false;
        here->is_over_ = true;
        return true;
    }

private:
    const What* const who_;
    active_call* const outer_;
    bool is_over_ = false;

    static inline thread_local active_call* innermost_ = nullptr;
};

}  // namespace sluice::detail
