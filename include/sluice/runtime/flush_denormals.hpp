// SPDX-License-Identifier: Apache-2.0
// flush_denormals: CPU devices that take denormal numbers as 0.
//
//     std::optional<sluice::runtime> machine;
//     {
//         const sluice::flush_denormals flushing;
//         machine.emplace();  // its CPU devices compute so, also when `flushing` is gone
//     }
//
// Denormal numbers are those of f32 below 1.2e-38, of f64 below 2.2e-308. Processors are several times slower with them
// than with others. A CPU device computes as the thread does that makes the runtime, whichever thread carries its
// commands out: its workers, a thread that waits, or one that calls a network. Such a thread is as before when the call
// returns. A network is prepared by the thread that makes it: what it computes from constants alone is as that thread
// computes.
//
// Thread safety: an object belongs to the thread that made it.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sluice {

// While this exists, the thread that made it takes denormal numbers as 0, where they are read and where they are
// results; afterwards it computes as before. Where the processor is neither x86-64 nor 64-bit Arm, it changes nothing.
class flush_denormals {
public:
    // Takes constant time.
    flush_denormals() noexcept {
        std::fegetenv(&before_);
#if defined(__x86_64__)
        constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
        _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
#elif defined(__aarch64__)
        constexpr std::uint64_t flush_to_zero = std::uint64_t{1} << 24;
        std::uint64_t control = 0;
        asm volatile("mrs %0, fpcr" : "=r"(control));
        asm volatile("msr fpcr, %0" : : "r"(control | flush_to_zero));
#endif
    }
    flush_denormals(const flush_denormals&) = delete;  // belongs to the thread
    flush_denormals& operator=(const flush_denormals&) = delete;
    ~flush_denormals() { std::fesetenv(&before_); }

private:
    std::fenv_t before_;
};

}  // namespace sluice
