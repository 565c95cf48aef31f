// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/hatch_lease.hpp"

#include <mutex>

#include "serve/workers/hatch_stream.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_pieces = std::size_t{1} << 20;

}  // namespace

bool hatch_lease::is_clear() {
    if (!was_left_) return true;
    try {
        begin();  // the worker has the time of a batch for the rest of its answer
        const hatch_wait wait{.spin = std::chrono::nanoseconds(0), .look = [this] { require_worker(); }};
        hatch_reader(its(), its().take(wait.spin, wait.look), wait).skip(most_pieces);
        its().set_unwanted(false);
        return true;
    } catch (const worker_gone&) {
        return false;
    } catch (const worker_damage& damage) {
        const std::lock_guard lock(pool_->mutex_);
        pool_->end(*worker_, damage.what());
        return false;
    }
}

void hatch_lease::give_up_worker(const std::string& why) {
    {
        const std::lock_guard lock(pool_->mutex_);
        pool_->end(*worker_, why);
    }
    throw worker_gone(why);
}

}  // namespace sluice::serve
