// thread_pool: an executor with a fixed number of threads. Items start in the order in which they were posted.
//
// Thread safety: post() may be called on any thread, the pool's own among them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/async/work_queue.hpp"

namespace sluice {

class thread_pool final : public executor {
public:
    // Throws std::invalid_argument for no threads, std::system_error where the system gives none.
    explicit thread_pool(std::size_t threads);
    // Runs what was posted, and what that posts, then ends the threads. Blocks. Never on a thread of the pool; by then
    // only the pool's own items may still post. What never comes back by itself is not waited for.
    ~thread_pool() override { close(); }

    void post(work_item& item) noexcept override;
    std::size_t size() const noexcept { return threads_.size(); }

private:
    void work() noexcept;
    void close() noexcept;

    std::mutex mutex_;
    std::condition_variable wake_;
    detail::work_queue posted_;
    bool closing_ = false;
    std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace sluice
