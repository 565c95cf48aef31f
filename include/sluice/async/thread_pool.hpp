// SPDX-License-Identifier: Apache-2.0
// thread_pool: an executor with a fixed number of threads. Items start in the order in which they were posted.
//
// A thread that has run its last item spins for a short time, looking for the next one, before it sleeps: waking a
// thread takes 5 to 12 us, as long as a small kernel. With 0 us the threads never spin.
//
// Thread safety: post() may be called on any thread, also on the pool's own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/async/detail/work_queue.hpp"

namespace sluice {

class thread_pool final : public executor {
public:
    // How long a thread looks for the next item before it sleeps, unless the pool is given another time.
    static constexpr std::chrono::microseconds usual_look{50};

    // `look`: how long a thread looks for the next item before it sleeps. Throws std::invalid_argument for no threads
    // or a negative time, std::system_error when the system gives no threads. Costs the creation of the threads.
    explicit thread_pool(std::size_t threads, std::chrono::microseconds look = usual_look);
    // Runs what was posted, and what that posts, then ends the threads. Blocks. Must not run on a thread of the pool.
    // Only the pool's own items may still post then. A coroutine that no thread resumes is not waited for.
    ~thread_pool() override { close(); }

    void post(work_item& item) noexcept override;
    std::size_t size() const noexcept { return threads_.size(); }  // the number of threads

private:
    void work() noexcept;
    void look_for_work(std::unique_lock<std::mutex>& lock) noexcept;
    void close() noexcept;

    const std::chrono::microseconds look_;
    std::mutex mutex_;
    std::condition_variable wake_;
    detail::work_queue posted_;
    // The number of spinning threads without, and with, an item left to them. The latter check the queue again before
    // they sleep, so leaving an item to one wakes no thread.
    std::size_t looking_ = 0;
    std::size_t promised_ = 0;
    std::atomic<std::size_t> changes_{0};  // counts what ends the spinning: items, and closing
    bool closing_ = false;
    std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace sluice
