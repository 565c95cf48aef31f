// SPDX-License-Identifier: Apache-2.0
// other_orders: keeps the calls of a trace, and checks them again in other orders of the host's threads.
#pragma once

#include <cstddef>
#include <vector>

#include "check/event.hpp"
#include "sluice/check/check_trace.hpp"

namespace sluice::check {

class other_orders {
public:
    explicit other_orders(const check_options& options) : options_(options) {}

    // Keeps nothing without `orders`, or after too many calls.
    void keep(const event& what);
    // Adds what is found in another order only, and how many orders there were.
    void check(check_report& to) const;

    static constexpr std::size_t most_calls = 200'000;
    static constexpr std::size_t most_bytes = std::size_t{256} << 20;  // of what calls refer to

private:
    const check_options& options_;
    std::vector<event> calls_;
    std::size_t bytes_ = 0;
    bool is_too_long_ = false;
};

}  // namespace sluice::check
