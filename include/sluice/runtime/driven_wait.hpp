// How a thread waits for the end of a task that a device's runtime brings about: asleep, or, where the runtime has no
// thread of its own (the simulator), by driving it meanwhile.
#pragma once

#include <functional>
#include <utility>

#include "sluice/async/root.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"

namespace sluice {
class device;
}

namespace sluice::detail {

// The end of a task that nobody sleeps for.
class task_end final : public root_owner {
public:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        has_come = true;
        return std::noop_coroutine();
    }
    bool has_come = false;
};

bool is_driven(device& home) noexcept;
// Throws when it is not over and can never be.
void drive_until(device& home, const std::function<bool()>& is_over);

// Runs the task on the calling thread, up to its end; returns its value or throws what it threw.
template <typename T>
T await_task(task<T> what, device& home) {
    if (!is_driven(home)) return sync_wait(std::move(what));
    auto root = make_root(std::move(what));
    task_end end;
    root.start(end);
    drive_until(home, [&] { return end.has_come; });
    return root.take();
}

}  // namespace sluice::detail
