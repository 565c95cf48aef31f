// SPDX-License-Identifier: Apache-2.0
#include "sim/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define SLUICE_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__)
#define SLUICE_THREAD_SANITIZER
#endif

#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SLUICE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace sluice::sim {
namespace {

constexpr std::size_t stack_bytes =
    std::size_t{256} * 1024;  // sanitizers' frames are large; pages not touched cost nothing
constexpr std::size_t guard_bytes = std::size_t{64} * 1024;  // at least a page, on every machine

// A stack that grows down to memory that cannot be accessed: a deep recursion ends with a fault, and does not write
// into other memory.
std::byte* map_stack() {
    void* const mapping = mmap(nullptr, guard_bytes + stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(mapping);
    if (mprotect(begin + guard_bytes, stack_bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(begin, guard_bytes + stack_bytes);
        throw std::bad_alloc();
    }
    return begin;
}

}  // namespace

void fiber::unmap::operator()(std::byte* mapping) const noexcept { munmap(mapping, guard_bytes + stack_bytes); }

fiber::fiber() {
#ifdef SLUICE_THREAD_SANITIZER
    thread_sanitizer_fiber_ = __tsan_get_current_fiber();
#endif
}

fiber::fiber(void (*entry)(void*) noexcept, void* argument) : entry_(entry), argument_(argument), stack_(map_stack()) {
    if (getcontext(&context_) != 0) throw std::system_error(errno, std::generic_category(), "getcontext");
    std::byte* const bottom = stack_.get() + guard_bytes;
    context_.uc_stack.ss_sp = bottom;
    context_.uc_stack.ss_size = stack_bytes;
    stack_bottom_ = bottom;
    stack_bytes_ = stack_bytes;
    // makecontext passes only ints.
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&fiber::start), 2, static_cast<unsigned int>(self >> 32),
                static_cast<unsigned int>(self));
#ifdef SLUICE_THREAD_SANITIZER
    thread_sanitizer_fiber_ = __tsan_create_fiber(0);
#endif
}

fiber::~fiber() {
#ifdef SLUICE_THREAD_SANITIZER
    if (entry_ != nullptr) __tsan_destroy_fiber(thread_sanitizer_fiber_);
#else
    static_cast<void>(thread_sanitizer_fiber_);
#endif
}

void fiber::switch_to(fiber& to, [[maybe_unused]] return_here back) noexcept {
    static_assert(sizeof(exceptions) <= 2 * sizeof(void*));
    std::memcpy(static_cast<void*>(&exceptions_), abi::__cxa_get_globals(), sizeof exceptions_);
    std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), &to.exceptions_, sizeof exceptions_);
    to.came_from_ = this;
#ifdef SLUICE_ADDRESS_SANITIZER
    // With null instead of a place to save it, the sanitizer frees its own part of this stack.
    __sanitizer_start_switch_fiber(back == return_here::yes ? &fake_stack_ : nullptr, to.stack_bottom_,
                                   to.stack_bytes_);
#endif
#ifdef SLUICE_THREAD_SANITIZER
    __tsan_switch_to_fiber(to.thread_sanitizer_fiber_, 0);
#endif
    swapcontext(&context_, &to.context_);
    arrive();
}

void fiber::start(unsigned int high, unsigned int low) noexcept {
    auto* const self = reinterpret_cast<fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
    self->arrive();
    self->entry_(self->argument_);
}

void fiber::arrive() noexcept {
#ifdef SLUICE_ADDRESS_SANITIZER
    // Also returns the bounds of the stack that was left; for a thread's own stack this is how we learn them.
    __sanitizer_finish_switch_fiber(fake_stack_, &came_from_->stack_bottom_, &came_from_->stack_bytes_);
#else
    static_cast<void>(fake_stack_);
#endif
}

}  // namespace sluice::sim
