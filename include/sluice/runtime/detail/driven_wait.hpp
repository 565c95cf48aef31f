// SPDX-License-Identifier: Apache-2.0
// await_task: blocks a thread until a task that a device's runtime resumes has ended. The thread sleeps; or, where the
// runtime has no thread of its own (the simulator), it drives the runtime meanwhile.
#pragma once

#include <functional>
#include <utility>

#include "sluice/async/detail/root.hpp"
#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"

namespace sluice {
class device;
}

namespace sluice::detail {

// Notes the end of a task for which no thread sleeps.
class task_end final : public root_owner {
public:
    std::coroutine_handle<> root_ended(std::size_t) noexcept override {
        is_reached = true;
        return std::noop_coroutine();
    }
    bool is_reached = false;
};

bool is_driven(device& home) noexcept;
// Runs the simulator until is_over() is true. Throws when it can never become true.
void drive_until(device& home, const std::function<bool()>& is_over);

// Starts the task on the calling thread and blocks until it has ended. Returns its value or throws its exception.
template <typename T>
T await_task(task<T> what, device& home) {
    if (!is_driven(home)) return sync_wait(std::move(what));
    auto root = make_root(std::move(what));
    task_end end;
    root.start(end);
    drive_until(home, [&] { return end.is_reached; });
    return root.take();
}

}  // namespace sluice::detail
