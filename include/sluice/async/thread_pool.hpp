// SPDX-License-Identifier: Apache-2.0
// thread_pool: an executor with a fixed number of threads. Items start in the order in which they were posted.
//
// A thread that has run its last item spins for a short time, looking for the next one, before it sleeps: waking a
// thread takes 5 to 12 us, as long as a small kernel. With 0 us the threads never spin.
//
// Thread safety: post() may be called on any thread, also on the pool's own.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "sluice/async/executor.hpp"

namespace sluice {

class thread_pool final : public executor {
public:
    // How long a thread looks for the next item before it sleeps, unless the pool is given another time.
    static constexpr std::chrono::microseconds usual_look{50};

    // `look`: how long a thread looks for the next item before it sleeps. Throws std::invalid_argument for no threads
    // or a negative time, std::system_error when the system gives no threads. Costs the creation of the threads.
    explicit thread_pool(std::size_t threads, std::chrono::microseconds look = usual_look);
    // Runs what was posted, and what that posts, then ends the threads. Blocks. On a thread of the pool (a coroutine
    // there is the last owner) it runs items itself, and that thread ends when it returns to the pool. Only the pool's
    // own items may still post then. A coroutine that no thread resumes is not waited for.
    ~thread_pool() override;

    void post(work_item& item) noexcept override;
    std::size_t size() const noexcept { return size_; }  // the number of threads

private:
    class core;

    const std::size_t size_;
    const std::shared_ptr<core> core_;  // shared with the threads: the pool may be destroyed on one of them
};

}  // namespace sluice
