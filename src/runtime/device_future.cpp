#include "sluice/runtime/device_future.hpp"

#include <condition_variable>
#include <mutex>

#include "runtime/completion_service.hpp"
#include "sluice/runtime/driven_wait.hpp"

namespace sluice::detail {
namespace {

struct told {
    std::mutex mutex;
    std::condition_variable wake;
    bool is_told = false;
};

}  // namespace

bool await_until(const submission_ref& submitted, const deadline& until) {
    if (submitted->is_complete()) return true;
    const completion_service& service = submitted->home().service();
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
    const auto is_told = [&] { return state.is_told; };
    if (service_driver* const driver = service.driver()) {
        if (driver->run_until(is_told, service.due(until))) return true;
        notice.get()->cancel();
        return submitted->is_complete();
    }
    std::unique_lock lock(state.mutex);
    if (state.wake.wait_until(lock, until.at(), is_told)) return true;
    lock.unlock();
    if (notice.get()->cancel()) return submitted->is_complete();
    lock.lock();  // it is being told right now
    state.wake.wait(lock, is_told);
    return true;
}

bool is_driven(device& home) noexcept { return home.service().driver() != nullptr; }

void drive_until(device& home, const std::function<bool()>& is_over) {
    home.service().driver()->run_until(is_over, alarm::clock::time_point::max());
}

}  // namespace sluice::detail
