// SPDX-License-Identifier: Apache-2.0
#include "sluice/base/detail/lock_scheduler.hpp"

#include "sluice/base/detail/spin_lock.hpp"

#include <chrono>
#include <thread>

namespace sluice::detail {
namespace {
// This is not a hidden runtime context: it only names the lock_scheduler that schedules the thread.
constinit thread_local lock_scheduler* of_this_thread = nullptr;
}  // namespace

lock_scheduler* lock_scheduler_of_this_thread() noexcept { return of_this_thread; }
void set_lock_scheduler_of_this_thread(lock_scheduler* turns) noexcept { of_this_thread = turns; }

void spin_lock::wait_for_owner(int tries) noexcept {
    if (of_this_thread != nullptr) return of_this_thread->let_others_run();
    // The owner may have been descheduled: sleep after a while, so that it can run.
    if (tries >= 512) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
        std::this_thread::yield();
    }
}

}  // namespace sluice::detail
