// SPDX-License-Identifier: Apache-2.0
// quiet_watch: says when nothing has happened for a while, once after each thing that happened.
//
//     serve::quiet_watch quiet(std::chrono::seconds(10));
//     if (quiet.is_over(requests_so_far, clock::now())) engine.give_back_memory();
//
// Thread safety: for one thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::serve {

class quiet_watch {
public:
    using clock = std::chrono::steady_clock;  // of all times here

    // 0: never. Costs O(1).
    explicit quiet_watch(clock::duration after) noexcept : after_(after) {}

    // `happened` counts what has happened so far. True: since `after` it has not changed, and since it changed this was
    // not true. Costs O(1).
    bool is_over(std::uint64_t happened, clock::time_point now) noexcept {
        if (happened != happened_) {
            happened_ = happened;
            since_ = now;
            is_told_ = false;
        }
        if (is_told_ || after_ == clock::duration::zero() || now - since_ < after_) return false;
        is_told_ = true;
        return true;
    }

private:
    const clock::duration after_;
    std::uint64_t happened_ = 0;
    clock::time_point since_{};
    bool is_told_ = true;  // nothing has happened yet
};

}  // namespace sluice::serve
