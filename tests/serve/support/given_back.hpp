// SPDX-License-Identifier: Apache-2.0
// Memory for requests is given back soon after an answer, not before it: a client sees the answer first, and streams of
// a connection count until the relay sees that it is closed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "sluice/serve/request_budget.hpp"

namespace sluice::serve::testing {

inline void expect_given_back(const request_budget& budget) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (budget.bytes() != 0 && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(budget.bytes(), 0U);
}

}  // namespace sluice::serve::testing
