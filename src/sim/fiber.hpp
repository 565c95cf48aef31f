// A stack of its own, on which a function runs until it switches to another. The sanitizers are told of each
// switch.
//
// Thread safety: none; the fibers that switch to each other belong to one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace sluice::sim {

class fiber {
public:
    enum class return_here { yes, never };

    // The one that is running: the calling thread, on its own stack.
    fiber();
    // One that runs entry(argument) when first switched to. It must never return; it may switch away for good.
    fiber(void (*entry)(void*) noexcept, void* argument);
    ~fiber();
    fiber(const fiber&) = delete;  // a suspended stack points into itself
    fiber& operator=(const fiber&) = delete;

    // Called on the running fiber: goes on in `to`, and returns when someone switches back.
    void switch_to(fiber& to, return_here back = return_here::yes) noexcept;

private:
    // The C++ run-time library's record of exceptions in flight, one a thread, so that ours to keep apart.
    struct exceptions {
        void* caught = nullptr;
        unsigned int uncaught = 0;
    };

    static void start(unsigned int high, unsigned int low) noexcept;
    void arrive() noexcept;

    void (*entry_)(void*) noexcept = nullptr;
    void* argument_ = nullptr;
    std::unique_ptr<std::byte[]> stack_;
    ucontext_t context_{};
    exceptions exceptions_;
    fiber* came_from_ = nullptr;          // who switched here last
    const void* stack_bottom_ = nullptr;  // for the address sanitizer
    std::size_t stack_bytes_ = 0;
    void* fake_stack_ = nullptr;
    void* thread_sanitizer_fiber_ = nullptr;
};

}  // namespace sluice::sim
