// SPDX-License-Identifier: Apache-2.0
// thread_orders: other orders in which the host's threads could have made the calls of a trace.
//
// Each thread keeps the order of its own calls. Of two threads, what a trace shows is kept: an object is there before
// it is used and is used before it is destroyed, memory is free before it is allocated again, a query comes after what
// it has seen complete, and calls during a capture stay as they were. Locks are not in a trace, so a program may not
// permit each of these orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "check/event.hpp"

namespace sluice::check {

class thread_orders {
public:
    // Costs O(calls), and memory likewise.
    explicit thread_orders(const std::vector<event>& calls);

    // Of the host that make calls.
    std::size_t threads() const noexcept { return by_thread_.size(); }
    // Order number `which`, from 0: indices of calls. First each thread runs before all others, then each after all
    // others, then they take turns at random; the same number gives the same order. Costs O(calls * threads).
    std::vector<std::uint32_t> order(std::size_t which) const;

    static constexpr std::size_t most_threads = 256;

private:
    std::vector<std::vector<std::uint32_t>> by_thread_;  // the calls of each
    std::vector<std::uint32_t> declarations_;            // lines that are of no thread: they come as early as they can
    std::vector<std::vector<std::uint32_t>> followers_;  // of each call
    std::vector<std::uint32_t> open_;                    // how many calls each one follows
};

}  // namespace sluice::check
