// SPDX-License-Identifier: Apache-2.0
#include "cuda/kept_owners.hpp"

#include <algorithm>
#include <utility>

namespace sluice::cuda {

bool kept_owners::latest::keeps(const void* object, ticket longer) noexcept {
    ticket now = until.load(std::memory_order_relaxed);
    return now != 0 && known == object && until.compare_exchange_strong(now, longer);
}

void kept_owners::keep(const std::shared_ptr<const void>& owner, span when) {
    drop(when.passed);
    const std::lock_guard lock(mutex_);
    list(owner, when.until);
    has_any_.store(true, std::memory_order_relaxed);
}

void kept_owners::keep_function(const loaded_function& function, span when) {
    if (!function_.keeps(&function, when.until)) replace(function_, function.shared_from_this(), &function, when);
}

void kept_owners::keep_again(latest& in, const std::shared_ptr<const void>& owner, span when) {
    if (!in.keeps(owner.get(), when.until)) replace(in, owner, owner.get(), when);
}

void kept_owners::replace(latest& in, std::shared_ptr<const void> by, const void* known, span when) {
    drop(when.passed);
    const std::lock_guard lock(mutex_);
    const ticket before = in.until.load(std::memory_order_relaxed);  // changes only here, or with the lock held
    if (before != 0) list(in.owner, before);
    in.owner.swap(by);  // the caller destroys the former one
    in.known = known;
    in.until.store(when.until, std::memory_order_relaxed);
    has_any_.store(true, std::memory_order_relaxed);
}

// Recognises an owner among the last two entries, for launches that take turns.
void kept_owners::list(std::shared_ptr<const void> owner, ticket until) {
    const auto recent = all_.end() - std::min<std::ptrdiff_t>(std::ssize(all_), 2);
    const auto known = std::find_if(recent, all_.end(), [&](const kept& each) { return each.owner == owner; });
    if (known == all_.end()) {
        all_.push_back({until, std::move(owner)});
    } else {
        known->until = until;
    }
}

std::shared_ptr<const void> kept_owners::take_passed(ticket passed) noexcept {
    std::shared_ptr<const void> taken;
    bool keeps_any = false;
    for (latest* const each : {&function_, &graph_, &graph_owner_}) {
        ticket until = each->until.load(std::memory_order_relaxed);
        if (taken == nullptr && until != 0 && until <= passed && each->until.compare_exchange_strong(until, 0)) {
            taken = std::move(each->owner);
        }
        keeps_any = keeps_any || each->until.load(std::memory_order_relaxed) != 0;
    }
    if (taken == nullptr && !all_.empty() && all_.front().until <= passed) {
        taken = std::move(all_.front().owner);
        all_.pop_front();
    }
    has_any_.store(keeps_any || !all_.empty(), std::memory_order_relaxed);
    return taken;
}

void kept_owners::drop(ticket passed) noexcept {
    while (has_any_.load(std::memory_order_relaxed)) {
        std::shared_ptr<const void> dropped;  // destroyed after the lock
        const std::lock_guard lock(mutex_);
        dropped = take_passed(passed);
        if (dropped == nullptr) return;
    }
}

}  // namespace sluice::cuda
