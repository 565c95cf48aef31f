// SPDX-License-Identifier: Apache-2.0
// run_loop: an executor whose items run on the thread that calls run(), in the order in which they were posted.
//
//     run_loop loop;
//     auto answer = spawn(ask(), loop);   // nothing runs yet
//     loop.run_pending();                 // runs here
//
// Thread safety: post() and finish() may be called on any thread; the others too, and then the callers share the
// items. All that was posted must have run before the loop is destroyed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "sluice/async/detail/item_threads.hpp"
#include "sluice/async/detail/work_queue.hpp"

namespace sluice {

class run_loop final : public executor {
public:
    run_loop() = default;

    void post(work_item& item) noexcept override;

    // Runs items and waits for more, until finish() has been called and none is left. Costs O(1) for each item, and
    // what the items take.
    void run() noexcept;
    // Waits for one item and runs it. False when finish() has been called and none is left. Costs O(1), and what the
    // item takes.
    bool run_one() noexcept;
    // Runs the items that were posted before the call, not those that these post; does not wait. Returns how many.
    // Costs O(items), and what they take.
    std::size_t run_pending() noexcept;
    // Lets run() return when it has run what was posted. This is final: a finished loop never waits again. Costs O(1),
    // and waking the threads that wait.
    void finish() noexcept;

private:
    detail::item_threads threads_{*this};
    std::mutex mutex_;
    std::condition_variable wake_;
    detail::work_queue posted_;
    bool finished_ = false;
};

}  // namespace sluice
