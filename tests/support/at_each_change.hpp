// SPDX-License-Identifier: Apache-2.0
// at_each_change: calls a function as often as other threads make progress.
#pragma once

#include <atomic>
#include <thread>
#include <utility>

namespace sluice::test_support {

// Calls `function` at once and after each change of `progress`, until `is_over`. A thread that calls it without a pause
// takes the locks of a graph nearly all the time; where a tool makes each command slow, the threads that launch the
// graph would then wait for minutes.
template <typename Function>
void at_each_change(const std::atomic<int>& progress, const std::atomic<bool>& is_over, Function&& function) {
    for (int seen = -1; !is_over;) {
        const int now = progress;
        if (std::exchange(seen, now) == now) {
            std::this_thread::yield();
        } else {
            function();
        }
    }
}

}  // namespace sluice::test_support
