// SPDX-License-Identifier: Apache-2.0
#include "sluice/async/detail/item_threads.hpp"

#include "sluice/base/error.hpp"

namespace sluice::detail {
namespace {

thread_local item_threads::entry* innermost = nullptr;

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

item_threads* item_threads::of_this_thread(const executor* runs) noexcept {
    for (const entry* each = innermost; runs != nullptr && each != nullptr; each = each->outer_) {
        if (each->of_.of_ == runs) return &each->of_;
    }
    return nullptr;
}

task_wait::task_wait(const executor* runs, std::string_view operation) : at_(item_threads::of_this_thread(runs)) {
    if (at_ == nullptr) return;
    if (at_->waiting_.fetch_add(1) + 1 < at_->inside_.load()) return;
    at_->waiting_.fetch_sub(1);
    refuse(operation);
}

task_wait::~task_wait() {
    if (at_ != nullptr) at_->waiting_.fetch_sub(1);
}

void require_other_thread(const executor* runs, std::string_view operation) {
    const item_threads* const at = item_threads::of_this_thread(runs);
    if (at != nullptr && !at->is_another_free()) refuse(operation);
}

}  // namespace sluice::detail
