#include "sluice/runtime/device_future.hpp"

#include <condition_variable>
#include <mutex>

namespace sluice::detail {
namespace {

struct told {
    std::mutex mutex;
    std::condition_variable wake;
    bool is_told = false;
};

}  // namespace

bool await_until(const submission_ref& submitted, std::chrono::steady_clock::time_point deadline) {
    if (submitted->is_complete()) return true;
    told state;
    static inline_executor where;  // a notice that was given up still ends there, when all this is gone
    const auto notice = completion_notice::make(
        submitted, &where,
        [](void* whom) noexcept {
            auto& waiter = *static_cast<told*>(whom);
            const std::lock_guard lock(waiter.mutex);
            waiter.is_told = true;
            waiter.wake.notify_all();  // with the lock held: the waiter's stack goes when it has it
        },
        &state);
    notice.get()->start();
    std::unique_lock lock(state.mutex);
    const auto is_told = [&] { return state.is_told; };
    if (state.wake.wait_until(lock, deadline, is_told)) return true;
    lock.unlock();
    if (notice.get()->cancel()) return submitted->is_complete();
    lock.lock();  // it is being told right now
    state.wake.wait(lock, is_told);
    return true;
}

}  // namespace sluice::detail
