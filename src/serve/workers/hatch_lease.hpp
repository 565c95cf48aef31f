// SPDX-License-Identifier: Apache-2.0
// hatch_lease: a hatch of a worker, lent for one batch.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "serve/workers/pooled_worker.hpp"
#include "serve/workers/worker_pool.hpp"

namespace sluice::serve {

// The worker that had the batch has ended, or is of no more use.
class worker_gone : public error {
public:
    explicit worker_gone(std::string_view why) : error(errc::io_failed, why) {}
};

class hatch_lease {
public:
    // `was_left`: the answer to the batch before comes first.
    hatch_lease(std::shared_ptr<worker_pool> pool, std::shared_ptr<pooled_worker> worker, std::size_t index,
                bool was_left) noexcept
        : pool_(std::move(pool)), worker_(std::move(worker)), index_(index), was_left_(was_left) {}
    hatch_lease(hatch_lease&&) = default;
    hatch_lease(const hatch_lease&) = delete;  // it is given back once
    hatch_lease& operator=(const hatch_lease&) = delete;
    ~hatch_lease() {
        if (pool_) pool_->give_back(*worker_, index_, is_left_);
    }

    hatch& its() const noexcept { return worker_->hatches[index_]->its; }
    // Throws worker_gone.
    void require_worker() const {
        if (worker_->is_gone.load(std::memory_order_acquire)) throw worker_gone("the worker process has ended");
    }
    // Takes what is left of an answer that no thread has waited for. False: the worker is gone, so take another hatch.
    bool is_clear();
    // From now on the worker works on the batch.
    void begin() noexcept {
        worker_->hatches[index_]->since_ns.store(worker_clock::now().time_since_epoch().count(),
                                                 std::memory_order_relaxed);
    }
    // No client waits for the answer, which still comes.
    void leave() noexcept {
        is_left_ = true;
        its().set_unwanted(true);
    }
    // The worker is of no more use.
    [[noreturn]] void give_up_worker(const std::string& why);

private:
    std::shared_ptr<worker_pool> pool_;
    std::shared_ptr<pooled_worker> worker_;
    std::size_t index_;
    bool was_left_;
    bool is_left_ = false;
};

}  // namespace sluice::serve
