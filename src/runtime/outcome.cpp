// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/outcome.hpp"

#include <algorithm>
#include <mutex>

namespace sluice::detail {

outcome::outcome(std::size_t sources, bool is_command)
    : is_command_(is_command),
      open_sources_(sources + 1),
      links_(sources != 0 ? std::make_unique<link[]>(sources) : nullptr) {}

outcome_ref outcome::combined(std::span<const outcome_ref> sources, bool is_command) {
    outcome_ref made(new outcome(sources.size(), is_command));
    for (std::size_t i = 0; i < sources.size(); ++i) {
        link& own = made->links_[i];
        own.dependent = made.get();
        sources[i]->tell(own);
    }
    const std::lock_guard lock(made->guard_);
    made->count_down();
    return made;
}

outcome_ref outcome::failed(std::exception_ptr failure) {
    outcome_ref made = combined({}, true);
    made->settle(std::move(failure));
    return made;
}

void outcome::tell(link& one) noexcept {
    {
        const std::lock_guard lock(guard_);
        if (state_.load(std::memory_order_relaxed) == state::open) {
            one.dependent->references_.fetch_add(1, std::memory_order_relaxed);
            one.next = std::exchange(dependents_, &one);
            return;
        }
    }
    one.dependent->hear(one, failure_);
}

bool outcome::hear(const link& from, const std::exception_ptr& failure) noexcept {
    std::exception_ptr dropped;  // destroyed after the lock is released
    const std::lock_guard lock(guard_);
    if (state_.load(std::memory_order_relaxed) != state::open) return false;
    if (failure && (failed_source_ == nullptr || &from < failed_source_)) {
        dropped = std::exchange(failure_, failure);
        failed_source_ = &from;
    }
    return count_down();
}

bool outcome::count_down() noexcept {
    if (--open_sources_ != 0 || is_command_) return false;
    state_.store(failure_ ? state::failed : state::fine, std::memory_order_release);
    return true;
}

void outcome::settle(std::exception_ptr failure) noexcept {
    {
        const std::lock_guard lock(guard_);
        failure_.swap(failure);
        state_.store(failure_ ? state::failed : state::fine, std::memory_order_release);
    }
    notify_dependents();
}

// Dependents that this settles notify their own dependents later, from a list: a graph may have any depth. A settled
// outcome gets no more dependents.
void outcome::notify_dependents() noexcept {
    references_.fetch_add(1, std::memory_order_relaxed);
    outcome* settled = this;
    while (settled != nullptr) {
        outcome* const one = std::exchange(settled, settled->next_);
        link* each = std::exchange(one->dependents_, nullptr);
        while (each != nullptr) {
            const link& heard = *std::exchange(each, each->next);
            outcome* const dependent = heard.dependent;
            if (dependent->hear(heard, one->failure_)) {
                dependent->next_ = std::exchange(settled, dependent);  // with the link's reference
            } else {
                drop_reference(*dependent);
            }
        }
        drop_reference(*one);
    }
}

std::exception_ptr outcome::failure() const noexcept {
    return state_.load(std::memory_order_acquire) == state::failed ? failure_ : std::exception_ptr();
}

std::exception_ptr outcome::inherited() const noexcept {
    const std::lock_guard lock(guard_);
    return failure_;
}

// The outcomes that depend on a command that never ran are freed with it, in a loop: a recursion could be as deep as
// the graph.
void drop_reference(outcome& last) noexcept {
    outcome* doomed = nullptr;
    const auto release = [&](outcome* one) {
        if (one->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) one->next_ = std::exchange(doomed, one);
    };
    release(&last);
    while (doomed != nullptr) {
        outcome* const one = std::exchange(doomed, doomed->next_);
        for (outcome::link* each = one->dependents_; each != nullptr;) {
            release(std::exchange(each, each->next)->dependent);
        }
        delete one;
    }
}

void outcome_set::add(const outcome_ref& one) {
    if (!one || one == first_ || one->is_fine()) return;
    if (!first_) {
        first_ = one;
    } else if (std::find(others_.begin(), others_.end(), one) == others_.end()) {
        others_.push_back(one);
    }
}

outcome_ref outcome_set::merge(bool is_command) && {
    if (!is_command && others_.empty()) return std::move(first_);
    if (others_.empty()) return outcome::combined({&first_, first_ ? 1u : 0u}, is_command);
    others_.insert(others_.begin(), std::move(first_));
    return outcome::combined(others_, is_command);
}

}  // namespace sluice::detail
