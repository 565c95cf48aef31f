// SPDX-License-Identifier: Apache-2.0
#include "runtime/foreign_storage.hpp"

#include "runtime/completion_service.hpp"
#include "runtime/kept_memory.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/memory_pool.hpp"

namespace sluice::detail {

foreign_storage::foreign_storage(memory_pool& pool, void* data, std::size_t bytes, std::shared_ptr<const void> lender)
    : storage(pool, data, bytes, foreign{}),
      work_item([](work_item& self) noexcept { static_cast<foreign_storage&>(self).step(); }),
      lender_(std::move(lender)) {
    complete = [](completion_waiter& self) noexcept { static_cast<foreign_storage&>(self).post(); };
}

void foreign_storage::end() noexcept { post(); }

void foreign_storage::post() noexcept { owner().service().post(*this); }

// Waits for one open use after the other: each completion leads to the next step. Uses on a device that has faulted
// never become complete.
void foreign_storage::step() noexcept {
    stream_point open;
    bool is_lost = false;
    for_each_last_use([&](const stream_point& use) {
        const ticket upto_here = use.queue->reached(use.upto);
        if (use.queue->passed() >= upto_here) return;
        if (use.queue->owner().is_poisoned()) {
            is_lost = true;
        } else {
            open = {use.queue, upto_here};
        }
    });
    if (open.queue != nullptr) {
        const runtime_ref alive(owner());  // once the waiter is added, another thread may destroy this
        upto = open.upto;
        open.queue->add_waiter(*this);
    } else if (is_lost) {
        pool().keep_until_closed(*this);
    } else {
        finish();
    }
}

void foreign_storage::finish() noexcept { pool().end(*this); }

bool kept_memory::add(foreign_storage& lost) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    lost.next_kept_ = std::exchange(first_, &lost);
    return true;
}

void kept_memory::close() noexcept {
    foreign_storage* all = nullptr;
    {
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
        all = std::exchange(first_, nullptr);
    }
    while (all != nullptr) {
        foreign_storage* const next = all->next_kept_;
        all->finish();
        all = next;
    }
}

}  // namespace sluice::detail
