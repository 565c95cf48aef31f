// SPDX-License-Identifier: Apache-2.0
// scratch_places: places in scratch memory for images that are in work at the same time. It knows no memory, so that an
// explorer of interleavings can check it (tests/sim/phase_turns_interleaving_tests.cpp).
//
// Invariant. A place has one user at a time, who sees what the user before wrote there.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "sluice/base/detail/atomics.hpp"

namespace sluice::kernels {

template <typename Atomics = std_atomics>
class scratch_places {
public:
    // There are 32. The caller takes no more at a time. The lowest free one is taken: it was used last, by one of few
    // workers.
    std::size_t take() noexcept {
        std::uint32_t used = used_.load(std::memory_order_relaxed);
        for (;;) {
            const auto place = static_cast<std::size_t>(std::countr_one(used));
            // Pairs with give_back: the previous user of the place has written to it.
            if (used_.compare_exchange_weak(used, used | std::uint32_t{1} << place, std::memory_order_acquire,
                                            std::memory_order_relaxed))
                return place;
        }
    }
    void give_back(std::size_t place) noexcept {
        used_.fetch_and(~(std::uint32_t{1} << place), std::memory_order_release);
    }

private:
    typename Atomics::template atomic<std::uint32_t> used_{0};
};

}  // namespace sluice::kernels
