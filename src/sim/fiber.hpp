// SPDX-License-Identifier: Apache-2.0
// A fiber: a separate stack on which a function runs until it switches to another fiber. The sanitizers are notified of
// each switch.
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

    // The running fiber: the calling thread on its own stack.
    fiber();
    // A fiber that runs entry(argument) when first switched to. The function must never return; it may switch away for
    // ever.
    fiber(void (*entry)(void*) noexcept, void* argument);
    ~fiber();
    fiber(const fiber&) = delete;  // a suspended stack points into itself
    fiber& operator=(const fiber&) = delete;

    // Called on the running fiber: continues `to`, and returns when a fiber switches back.
    void switch_to(fiber& to, return_here back = return_here::yes) noexcept;

private:
    // The C++ runtime library's record of exceptions in flight. There is one per thread, so each fiber saves its own.
    struct exceptions {
        void* caught = nullptr;
        unsigned int uncaught = 0;
    };

    static void start(unsigned int high, unsigned int low) noexcept;
    void arrive() noexcept;

    void (*entry_)(void*) noexcept = nullptr;
    void* argument_ = nullptr;
    struct unmap {
        void operator()(std::byte* mapping) const noexcept;
    };

    std::unique_ptr<std::byte[], unmap> stack_;  // with a page below it that cannot be accessed
    ucontext_t context_{};
    exceptions exceptions_;
    fiber* came_from_ = nullptr;          // the fiber that switched here last
    const void* stack_bottom_ = nullptr;  // for the address sanitizer
    std::size_t stack_bytes_ = 0;
    void* fake_stack_ = nullptr;
    void* thread_sanitizer_fiber_ = nullptr;
};

}  // namespace sluice::sim
