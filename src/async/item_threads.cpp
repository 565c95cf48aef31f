// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/detail/item_threads.hpp"

#include <algorithm>

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

thread_local item_threads::entry* innermost = nullptr;
thread_local wait_for_start* innermost_wait = nullptr;

[[noreturn]] void refuse(std::string_view operation) {
    throw error(errc::invalid_argument,
                "the last free thread of an executor cannot wait for a task that the executor runs, because the task "
                "may need this thread. co_await the task instead, or give the executor more threads",
                {operation});
}

}  // namespace

// A thread that runs items inside of items counts once.
item_threads::entry::entry(item_threads& of) noexcept : of_(of), outer_(innermost) {
    if (!of.is_own_thread()) of_.inside_.fetch_add(1);
    innermost = this;
}

item_threads::entry::~entry() {
    innermost = outer_;
    if (!of_.is_own_thread()) of_.inside_.fetch_sub(1);
}

item_threads::entry* item_threads::entry_of_this_thread(const executor* runs) noexcept {
    entry* outermost = nullptr;
    for (entry* each = innermost; runs != nullptr && each != nullptr; each = each->outer_) {
        if (each->of_.of_ == runs) outermost = each;
    }
    return outermost;
}

// Of threads that begin at the same time, each sees those that were counted before it: the last one is refused.
void item_threads::entry::begin_wait(std::string_view operation) {
    if (waits_ == 0 && of_.waiting_.fetch_add(1) + 1 >= of_.inside_.load()) {
        of_.waiting_.fetch_sub(1);
        refuse(operation);
    }
    ++waits_;
}

void item_threads::entry::end_wait() noexcept {
    if (--waits_ == 0) of_.waiting_.fetch_sub(1);
}

task_wait::task_wait(const executor* runs, std::string_view operation) : at_(item_threads::entry_of_this_thread(runs)) {
    if (at_ != nullptr) at_->begin_wait(operation);
}

task_wait::~task_wait() {
    if (at_ != nullptr) at_->end_wait();
}

wait_for_start::wait_for_start() noexcept : outer_(innermost_wait) { innermost_wait = this; }

wait_for_start::~wait_for_start() {
    innermost_wait = outer_;
    for (item_threads::entry* const each : at_) each->end_wait();
}

void wait_for_start::add(const executor* runs, std::string_view operation) {
    item_threads::entry* const at = item_threads::entry_of_this_thread(runs);
    if (at == nullptr || std::ranges::find(at_, at) != at_.end()) return;
    at_.reserve(at_.size() + 1);
    at->begin_wait(operation);
    at_.push_back(at);
}

void require_other_thread(const executor* runs, std::string_view operation) { innermost_wait->add(runs, operation); }

}  // namespace sluice::detail
