// SPDX-License-Identifier: Apache-2.0
// Atomics for the explorer in sluice/sim/interleaving.hpp: every operation is a scheduling point, and a load gives one
// of the values that the memory orders permit, as the seed selects. sim::plain is a variable that is not atomic.
//
// Permitted is what C++ permits, with two exceptions: no load gives a value that is stored later, and
// compare_exchange_weak does not fail spuriously.
//
// Thread safety: none. One real thread runs all simulated threads.
//
// All members take time in proportion to the atomics of the schedule, without what other simulated threads do at the
// scheduling point. They end the process when memory is short.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sluice/sim/detail/weak_memory.hpp"
#include "sluice/sim/interleaving.hpp"

namespace sluice::sim {

// A std::atomic whose every operation is a scheduling point. See the top of this file.
template <typename T>
class atomic {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);

public:
    using value_type = T;  // as std::atomic's

    constexpr atomic() noexcept = default;
    constexpr atomic(T value) noexcept : value_(value) {}  // implicit, like std::atomic's
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;

    // As std::atomic has it.
    T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
        scheduling_point();
        return read(order);
    }
    // As std::atomic has it.
    void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        scheduling_point();
        write(value, order, false);
    }
    // As std::atomic has it.
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        scheduling_point();
        return update(value, order);
    }

    // As std::atomic has it. When it fails, it is a load with the second memory order, and may give an older value.
    bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                                 std::memory_order failure) noexcept {
        scheduling_point();
        if (!same(value_, expected)) {
            const T seen = read(failure);
            expected = same(seen, expected) ? value_ : seen;
            return false;
        }
        update(desired, success);
        return true;
    }
    // As std::atomic has it.
    bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return compare_exchange_strong(expected, desired, order, load_part(order));
    }
    // The same as compare_exchange_strong: it never fails spuriously.
    bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure) noexcept {
        return compare_exchange_strong(expected, desired, success, failure);
    }
    // The same as compare_exchange_strong: it never fails spuriously.
    bool compare_exchange_weak(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) noexcept {
        return compare_exchange_strong(expected, desired, order);
    }

    // As std::atomic has them, for integers.
    T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return update(static_cast<T>(value_ + value), order);
    }
    // As std::atomic has it, for integers.
    T fetch_sub(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return update(static_cast<T>(value_ - value), order);
    }
    // As std::atomic has it, for integers.
    T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return update(static_cast<T>(value_ & value), order);
    }
    // As std::atomic has it, for integers.
    T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires std::integral<T>
    {
        scheduling_point();
        return update(static_cast<T>(value_ | value), order);
    }

    operator T() const noexcept { return load(); }                 // the same as load()
    T operator=(T value) noexcept { return store(value), value; }  // stores the value, and returns it

private:
    static constexpr std::memory_order load_part(std::memory_order order) noexcept {
        if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
        return order == std::memory_order_release ? std::memory_order_relaxed : order;
    }
    static bool same(const T& one, const T& other) noexcept { return std::memcmp(&one, &other, sizeof(T)) == 0; }

    T read(std::memory_order order) const noexcept {
        T result = value_;
        if (const void* const older = detail::read_atomic(where_, &value_, sizeof(T), order))
            std::memcpy(&result, older, sizeof(T));
        return result;
    }
    void write(T value, std::memory_order order, bool is_update) noexcept {
        detail::read_last(where_, &value_, sizeof(T), std::memory_order_relaxed);
        value_ = value;
        detail::write_atomic(where_, &value_, sizeof(T), order, is_update);
    }
    T update(T value, std::memory_order order) noexcept {
        const T before = value_;
        detail::read_last(where_, &value_, sizeof(T), order);
        value_ = value;
        detail::write_atomic(where_, &value_, sizeof(T), order, true);
        return before;
    }

    T value_{};
    mutable detail::location where_;
};

// A variable that is not atomic. An access that is not ordered after a conflicting access of another thread fails the
// schedule: in std::atomic's program it would be a data race. No scheduling point.
template <typename T>
class plain {
public:
    plain() = default;
    plain(T value) : value_(std::move(value)) {}  // implicit, like a variable's
    plain(const plain&) = delete;                 // like atomic
    plain& operator=(const plain&) = delete;

    // Reads the variable.
    const T& get() const noexcept {
        detail::read_plain(where_);
        return value_;
    }
    // Writes the variable.
    void set(T value) noexcept {
        detail::write_plain(where_);
        value_ = std::move(value);
    }

private:
    T value_{};
    mutable detail::location where_;
};

// The policy for templates that take their atomics as a parameter, like std_atomics (sluice/base/detail/atomics.hpp).
struct atomics {
    template <typename T>
    using atomic = sim::atomic<T>;  // for the template
};

}  // namespace sluice::sim
