// SPDX-License-Identifier: Apache-2.0
// float_environment: how a thread computes with floating point: rounding, traps, and numbers near 0. Commands of a CPU
// device compute as the thread that made the device does, whichever thread carries them out.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sluice::cpu {

class float_environment {
public:
    // Of the calling thread.
    float_environment() noexcept : mode_(mode_of_this_thread()) { std::fegetenv(&all_); }

    // While this exists, the calling thread computes so. Where it does anyway, only two registers are read: setting
    // them costs more than a small command.
    class scope {
    public:
        explicit scope(const float_environment& wanted) noexcept
            : is_other_(!mode_is_known || mode_of_this_thread() != wanted.mode_) {
            if (!is_other_) return;
            std::fegetenv(&before_);
            std::fesetenv(&wanted.all_);
        }
        scope(const scope&) = delete;  // belongs to the thread
        scope& operator=(const scope&) = delete;
        ~scope() {
            if (is_other_) std::fesetenv(&before_);
        }

    private:
        const bool is_other_;
        std::fenv_t before_;
    };

private:
#if defined(__x86_64__)
    static constexpr bool mode_is_known = true;
    // Without the flags of what has happened.
    static std::uint32_t mode_of_this_thread() noexcept {
        constexpr std::uint32_t flags = 0x3f;
        std::uint16_t x87 = 0;
        asm volatile("fnstcw %0" : "=m"(x87));
        return (_mm_getcsr() & ~flags) | std::uint32_t{x87} << 16;
    }
#else
    static constexpr bool mode_is_known = false;
    static std::uint32_t mode_of_this_thread() noexcept { return 0; }
#endif

    std::uint32_t mode_;
    std::fenv_t all_;
};

}  // namespace sluice::cpu
