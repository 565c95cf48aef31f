#include "sluice/runtime/submission.hpp"

#include <algorithm>

#include "sluice/runtime/command_queue.hpp"

namespace sluice::detail {

void submission::expect(const command_queue& on, bool with_outcome) {
    const bool is_first = first_point_.where == nullptr || first_point_.where == &on;
    if (!is_first && more_points_.size() == more_points_.capacity()) more_points_.reserve(2 * more_points_.size() + 2);
    if (!with_outcome || outcomes_.size() < outcomes_.capacity()) return;
    // A long submission forgets what has turned out well meanwhile.
    std::erase_if(outcomes_, [](const outcome_ref& each) { return each->is_fine(); });
    outcomes_.reserve(std::max<std::size_t>(4, 2 * outcomes_.size()));
}

void submission::note(stream_point point, const outcome_ref& hangs_on) noexcept {
    if (hangs_on && (outcomes_.empty() || outcomes_.back() != hangs_on)) outcomes_.push_back(hangs_on);
    if (first_point_.where == nullptr) {
        first_point_ = point;
        return;
    }
    if (first_point_.where == point.where) {
        first_point_.upto = std::max(first_point_.upto, point.upto);
        return;
    }
    for (stream_point& each : more_points_) {
        if (each.where == point.where) {
            each.upto = std::max(each.upto, point.upto);
            return;
        }
    }
    more_points_.push_back(point);
}

void submission::join(submission_ref other) {
    // What has turned out well is not kept: of a chain of shared operations, each would keep all before it.
    if (other && other.get() != this && !other->is_fine()) joined_.push_back(std::move(other));
}

void submission::reach(const storage& data) {
    auto [last, hangs_on] = data.last_write();
    if (hangs_on && (hangs_on->is_fine() || std::ranges::find(outcomes_, hangs_on) != outcomes_.end())) hangs_on = {};
    if (last.where == nullptr || (!hangs_on && (covers(last) || last.where->passed() >= last.upto))) return;
    device& there = last.where->owner();
    if (&there != &home_) {  // perhaps another runtime's, which must be kept
        submission_ref theirs(new submission(there));
        theirs->reach(data);
        return join(std::move(theirs));
    }
    expect(*last.where, static_cast<bool>(hangs_on));
    note(last, hangs_on);
}

bool submission::covers(const stream_point& point) const noexcept {
    const auto does = [&](const stream_point& own) { return own.where == point.where && own.upto >= point.upto; };
    return does(first_point_) || std::ranges::any_of(more_points_, does);
}

stream_point submission::next_open() const noexcept {
    const auto is_open = [](const stream_point& point) {
        return point.where != nullptr && point.where->passed() < point.upto;
    };
    if (is_open(first_point_)) return first_point_;
    for (const stream_point& each : more_points_) {
        if (is_open(each)) return each;
    }
    for (const submission_ref& each : joined_) {
        const stream_point theirs = each->next_open();
        if (theirs.where != nullptr) return theirs;
    }
    return {};
}

bool submission::is_complete() const noexcept { return next_open().where == nullptr; }

bool submission::is_fine() const noexcept {
    return is_complete() && std::ranges::all_of(outcomes_, [](const outcome_ref& each) { return each->is_fine(); }) &&
           std::ranges::all_of(joined_, [](const submission_ref& each) { return each->is_fine(); });
}

void submission::await_completion(std::optional<wait_mode> mode) const {
    const auto await = [&](const stream_point& point) {
        if (point.where != nullptr)
            point.where->await(point.upto, mode.value_or(point.where->owner().default_wait_mode()));
    };
    await(first_point_);
    for (const stream_point& each : more_points_) await(each);
    for (const submission_ref& each : joined_) each->await_completion(mode);
}

void submission::rethrow_fault() const {
    const auto look_at = [](const stream_point& point) {
        if (point.where == nullptr || !point.where->owner().is_poisoned()) return;
        point.where->await(point.upto, point.where->owner().default_wait_mode());  // throws unless it is passed
    };
    look_at(first_point_);
    for (const stream_point& each : more_points_) look_at(each);
    for (const submission_ref& each : joined_) each->rethrow_fault();
}

void submission::rethrow_failure() const {
    // Not complete, and told all the same: a device has faulted, and says so; the others are not waited for. Should it
    // have come to the end after all, they are.
    if (!is_complete()) {
        rethrow_fault();
        await_completion({});
    }
    for (const outcome_ref& each : outcomes_) {
        if (std::exception_ptr failure = each->failure()) std::rethrow_exception(std::move(failure));
    }
    for (const submission_ref& each : joined_) each->rethrow_failure();
}

}  // namespace sluice::detail
