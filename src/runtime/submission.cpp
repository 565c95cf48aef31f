// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/detail/submission.hpp"

#include <algorithm>
#include <exception>

#include "runtime/helping.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/detail/wait_checks.hpp"

namespace sluice::detail {
namespace {

bool is_open(const stream_point& point) { return point.queue->passed() < point.upto; }

void wait(const stream_point& point, std::optional<wait_mode> mode) {
    point.queue->wait(point.upto, mode.value_or(point.queue->owner().default_wait_mode()));
}

bool is_fine(const outcome_ref& one) { return one->is_fine(); }

}  // namespace

void submission::expect(const command_queue& on, bool with_outcome) {
    const bool is_first = first_point_.queue == nullptr || first_point_.queue == &on;
    if (!is_first && more_points_.size() == more_points_.capacity()) more_points_.reserve(2 * more_points_.size() + 2);
    if (with_outcome) expect_outcome();
}

void submission::expect_outcome() {
    if (outcomes_.size() < outcomes_.capacity()) return;
    // A long submission drops the outcomes that have succeeded meanwhile.
    std::erase_if(outcomes_, is_fine);
    outcomes_.reserve(std::max<std::size_t>(4, 2 * outcomes_.size()));
}

void submission::note_outcome(const outcome_ref& depends_on) noexcept {
    if (depends_on && (outcomes_.empty() || outcomes_.back() != depends_on)) outcomes_.push_back(depends_on);
}

void submission::note(stream_point point, const outcome_ref& depends_on) noexcept {
    note_outcome(depends_on);
    if (first_point_.queue == nullptr) {
        first_point_ = point;
        return;
    }
    if (first_point_.queue == point.queue) {
        first_point_.upto = std::max(first_point_.upto, point.upto);
        return;
    }
    const auto at = std::ranges::lower_bound(more_points_, point.queue, std::ranges::less(), &stream_point::queue);
    if (at != more_points_.end() && at->queue == point.queue) {
        at->upto = std::max(at->upto, point.upto);
    } else {
        more_points_.insert(at, point);
    }
}

void submission::join(const submission_ref& other) {
    if (!other || other.get() == this) return;
    for (const outcome_ref& each : other->outcomes_) {
        if (each->is_fine()) continue;
        expect_outcome();
        note_outcome(each);
    }
    bool takes_over = false;
    other->any_point([&](const stream_point& point) {
        if (!is_open(point)) return false;
        takes_over = true;
        expect(*point.queue, false);
        note(point, {});
        return false;
    });
    if (!takes_over) return;
    keep(other->home_);
    for (const kept_device& each : other->kept_) keep(each.of);
}

void submission::keep(device& reached) {
    const auto is_it = [&](const kept_device& each) { return &each.of == &reached; };
    if (&reached != &home_ && std::ranges::none_of(kept_, is_it)) kept_.emplace_front(reached);
}

void submission::reach(const storage& data) {
    auto [last, depends_on] = data.last_write();
    if (depends_on && depends_on->is_fine()) depends_on = {};
    if (last.queue == nullptr || (!depends_on && (covers(last) || last.queue->passed() >= last.upto))) return;
    keep(last.queue->owner());
    expect(*last.queue, static_cast<bool>(depends_on));
    note(last, depends_on);
}

void submission::seal() {
    std::erase_if(outcomes_, is_fine);
    if (outcomes_.size() > 1) outcomes_.assign(1, outcome::combined(outcomes_, false));
}

bool submission::covers(const stream_point& point) const noexcept {
    return any_point([&](const stream_point& own) { return own.queue == point.queue && own.upto >= point.upto; });
}

stream_point submission::next_open() const noexcept {
    stream_point next;
    any_point([&](const stream_point& point) {
        if (is_open(point)) next = point;
        return next.queue != nullptr;
    });
    return next;
}

bool submission::is_complete() const noexcept { return !any_point(is_open); }

bool submission::is_over() const noexcept {
    const stream_point open = next_open();
    return open.queue == nullptr || open.queue->owner().is_poisoned();
}

void submission::poll() const noexcept {
    any_point([](const stream_point& point) {
        if (is_open(point)) point.queue->poll();
        return false;
    });
}

void submission::await_completion(std::optional<wait_mode> mode) const {
    const helping_scope helps;
    require_may_wait(*this, "wait");
    any_point([&](const stream_point& point) {
        wait(point, mode);
        return false;
    });
}

void submission::rethrow_fault() const {
    any_point([](const stream_point& point) {
        if (point.queue->owner().is_poisoned()) wait(point, {});  // throws unless it is passed
        return false;
    });
}

void submission::rethrow_failure() const {
    // Completed without being complete: a device has faulted. Its fault is thrown without waiting for the other
    // devices. If its commands did complete after all, this waits for the others.
    if (!is_complete()) {
        rethrow_fault();
        await_completion({});
    }
    for (const outcome_ref& each : outcomes_) {
        if (std::exception_ptr failure = each->failure()) std::rethrow_exception(std::move(failure));
    }
}

}  // namespace sluice::detail
