// SPDX-License-Identifier: Apache-2.0
#include "cuda/host_works.hpp"

#include <array>
#include <cstddef>
#include <exception>
#include <utility>

#include "cuda/callback_scope.hpp"

namespace sluice::cuda {

// What a host callback carries.
struct host_work {
    const std::shared_ptr<host_works> list;
    std::function<void()> call;
    detail::outcome_ref outcome;
    std::shared_ptr<graph_host_calls> of_graph;
    bool is_abandoned = false;
    std::unique_ptr<host_work> earlier = nullptr;
    host_work* later = nullptr;
};

host_works::host_works() = default;
host_works::~host_works() = default;

host_work& host_works::add(std::function<void()> call, detail::outcome_ref outcome,
                           std::shared_ptr<graph_host_calls> of_graph) {
    auto made = std::make_unique<host_work>(
        host_work{shared_from_this(), std::move(call), std::move(outcome), std::move(of_graph)});
    host_work& work = *made;
    const std::lock_guard lock(mutex_);
    work.earlier = std::move(latest_);
    if (work.earlier) work.earlier->later = &work;
    latest_ = std::move(made);
    return work;
}

std::unique_ptr<host_work> host_works::take_over(host_work& work) noexcept {
    host_works& list = *work.list;
    const std::lock_guard lock(list.mutex_);
    std::unique_ptr<host_work>& link = work.later != nullptr ? work.later->earlier : list.latest_;
    std::unique_ptr<host_work> taken = std::move(link);
    link = std::move(taken->earlier);
    if (link) link->later = taken->later;
    return taken;
}

void host_works::remove(host_work& work) noexcept { static_cast<void>(take_over(work)); }

void host_works::run(void* erased) {
    const callback_scope here;
    const std::unique_ptr<host_work> work = take_over(*static_cast<host_work*>(erased));
    std::exception_ptr failure = work->outcome->inherited();
    try {
        if (!failure && work->call) work->call();
    } catch (...) {
        failure = std::current_exception();
    }
    work->call = nullptr;  // destroyed before any waiter is notified
    work->outcome->settle(std::move(failure));
}

void host_works::abandon() noexcept {
    for (;;) {
        std::array<std::function<void()>, 32> calls;
        std::array<std::shared_ptr<graph_host_calls>, calls.size()> graphs;
        std::size_t count = 0;
        {
            const std::lock_guard lock(mutex_);
            for (host_work* each = latest_.get(); each != nullptr; each = each->earlier.get()) {
                if (count == calls.size()) break;
                if (std::exchange(each->is_abandoned, true)) continue;
                calls[count].swap(each->call);
                graphs[count++] = each->of_graph;
            }
        }
        if (count == 0) return;
        for (const auto& each : graphs) {
            if (each != nullptr) each->abandon();
        }
    }
}

}  // namespace sluice::cuda
