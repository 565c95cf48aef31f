#include "sluice/runtime/outcome.hpp"

#include <algorithm>
#include <mutex>

namespace sluice::detail {

// Only commands' outcomes are kept as sources, and what is settled already: looking is one step deep.
outcome_ref outcome::made_of(std::vector<outcome_ref> sources, bool is_command) {
    std::vector<outcome_ref> flat;
    flat.reserve(sources.size());
    for (outcome_ref& each : sources) {
        if (!each->is_command_ && each->look() == state::open) {
            const std::lock_guard lock(each->guard_);
            if (each->state_.load(std::memory_order_relaxed) == state::open) {
                flat.insert(flat.end(), each->sources_.begin(), each->sources_.end());
                continue;
            }
        }
        flat.push_back(std::move(each));
    }
    return outcome_ref(new outcome(std::move(flat), is_command));
}

outcome_ref outcome::failed(std::exception_ptr failure) {
    outcome_ref made = made_of({}, true);
    made->settle(std::move(failure));
    return made;
}

// Settles what is made of several as soon as its sources are. Sources are commands (or settled), so this does not
// call itself twice.
outcome::state outcome::look() const noexcept {
    const state known = state_.load(std::memory_order_acquire);
    if (is_command_ || known != state::open) return known;
    std::vector<outcome_ref> dropped;  // outside the lock
    const std::lock_guard lock(guard_);
    state now = state_.load(std::memory_order_relaxed);
    if (now != state::open) return now;
    now = state::fine;
    for (const outcome_ref& each : sources_) {
        const state theirs = each->look();
        if (theirs == state::failed) {
            failure_ = each->failure_;
            now = state::failed;
            break;
        }
        if (theirs == state::open) now = state::open;
    }
    if (now != state::open) {
        dropped.swap(sources_);
        state_.store(now, std::memory_order_release);
    }
    return now;
}

std::exception_ptr outcome::failure() const noexcept {
    return look() == state::failed ? failure_ : std::exception_ptr();
}

bool outcome::is_fine() const noexcept { return look() == state::fine; }

std::exception_ptr outcome::inherited() const noexcept {
    if (!is_command_) return failure();
    const std::lock_guard lock(guard_);
    for (const outcome_ref& each : sources_) {
        if (std::exception_ptr theirs = each->failure()) return theirs;
    }
    return {};
}

void outcome::settle(std::exception_ptr failure) noexcept {
    std::vector<outcome_ref> dropped;  // outside the lock
    const std::lock_guard lock(guard_);
    failure_ = std::move(failure);
    dropped.swap(sources_);
    state_.store(failure_ ? state::failed : state::fine, std::memory_order_release);
}

// A long chain of commands that never ran must not be dropped by as deep a recursion.
void outcome_ref::drop(outcome* last) noexcept {
    outcome* doomed = nullptr;
    const auto release = [&](outcome* one) {
        if (one->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            one->next_doomed_ = std::exchange(doomed, one);
    };
    release(last);
    while (doomed != nullptr) {
        outcome* const one = std::exchange(doomed, doomed->next_doomed_);
        for (outcome_ref& each : one->sources_) {
            if (outcome* const source = std::exchange(each.outcome_, nullptr)) release(source);
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
    if (first_) others_.insert(others_.begin(), std::move(first_));
    return outcome::made_of(std::move(others_), is_command);
}

}  // namespace sluice::detail
