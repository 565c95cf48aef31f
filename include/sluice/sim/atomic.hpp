// SPDX-License-Identifier: Apache-2.0
// Atomics for the explorer in sluice/sim/interleaving.hpp: every operation is a scheduling point. They model sequential
// consistency whatever memory order is given, and compare_exchange_weak never fails spuriously.
//
// Thread safety: none. One real thread runs all simulated threads.
//
// All members take constant time, without what other simulated threads do at the scheduling point.
#pragma once

#include <atomic>
#include <concepts>
#include <utility>

#include "sluice/sim/interleaving.hpp"

namespace sluice::sim {

// A std::atomic whose every operation is a scheduling point. See the top of this file.
template <typename T>
class atomic {
public:
    using value_type = T;  // as std::atomic's

    constexpr atomic() noexcept = default;
    constexpr atomic(T value) noexcept : value_(value) {}  // implicit, like std::atomic's
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;

    // As std::atomic has it; the memory order is ignored.
    T load(std::memory_order = std::memory_order_seq_cst) const noexcept {
        scheduling_point();
        return value_;
    }
    // As std::atomic has it; the memory order is ignored.
    void store(T value, std::memory_order = std::memory_order_seq_cst) noexcept {
        scheduling_point();
        value_ = value;
    }
    // As std::atomic has it; the memory order is ignored.
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) noexcept {
        scheduling_point();
        return std::exchange(value_, value);
    }

    // As std::atomic has it; the memory orders are ignored.
    bool compare_exchange_strong(T& expected, T desired, std::memory_order = std::memory_order_seq_cst,
                                 std::memory_order = std::memory_order_seq_cst) noexcept {
        scheduling_point();
        if (value_ != expected) {
            expected = value_;
            return false;
        }
        value_ = desired;
        return true;
    }
    // The same as compare_exchange_strong: it never fails spuriously.
    bool compare_exchange_weak(T& expected, T desired, std::memory_order success = std::memory_order_seq_cst,
                               std::memory_order failure = std::memory_order_seq_cst) noexcept {
        return compare_exchange_strong(expected, desired, success, failure);
    }

    // As std::atomic has them, for integers; the memory order is ignored.
    T fetch_add(T value, std::memory_order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return std::exchange(value_, static_cast<T>(value_ + value));
    }
    // As std::atomic has it, for integers; the memory order is ignored.
    T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return std::exchange(value_, static_cast<T>(value_ - value));
    }
    // As std::atomic has it, for integers; the memory order is ignored.
    T fetch_and(T value, std::memory_order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return std::exchange(value_, static_cast<T>(value_ & value));
    }
    // As std::atomic has it, for integers; the memory order is ignored.
    T fetch_or(T value, std::memory_order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return std::exchange(value_, static_cast<T>(value_ | value));
    }

    operator T() const noexcept { return load(); }                 // the same as load()
    T operator=(T value) noexcept { return store(value), value; }  // stores the value, and returns it

private:
    T value_{};
};

// The policy for templates that take their atomics as a parameter, like std_atomics (sluice/base/detail/atomics.hpp).
struct atomics {
    template <typename T>
    using atomic = sim::atomic<T>;  // for the template
};

}  // namespace sluice::sim
