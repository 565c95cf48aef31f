// SPDX-License-Identifier: Apache-2.0
#include "serve/call_queue.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "serve/batch.hpp"

namespace sluice::serve {
namespace {

std::string wait_text(std::size_t calls) { return std::to_string(calls) + " requests wait"; }

// Collects the calls of a batch, in their order.
class batch_builder {
public:
    explicit batch_builder(const batch_rule& rule)
        : rule_(rule), most_(rule.preferred.empty() ? rule.rows : rule.preferred.back()) {}

    // False: the batch ends before this call.
    bool add(const waiting_call& next, bool is_in_time) {
        if (first_ != nullptr && !fits(next)) {
            is_closed_ = true;
            return false;
        }
        if (first_ == nullptr) {
            first_ = next.call.get();
            found_.oldest = next.since;
        }
        rows_ += next.rows;
        ++found_.calls;
        found_.oldest = std::min(found_.oldest, next.since);
        if (next.deadline) found_.changes_after = std::min(found_.changes_after, *next.deadline);
        if (is_in_time && next.yields_at) found_.changes_after = std::min(found_.changes_after, *next.yields_at);
        if (std::ranges::binary_search(rule_.preferred, rows_)) preferred_calls_ = found_.calls;
        is_closed_ = !rule_.joins || rows_ >= most_;
        return !is_closed_;
    }

    next_batch take() {
        if (preferred_calls_ != 0) found_.calls = preferred_calls_;
        found_.is_ready = is_closed_ || preferred_calls_ != 0;
        return found_;
    }

private:
    bool fits(const waiting_call& next) const {
        return rows_ + next.rows <= most_ && can_join(first_->inputs, next.call->inputs);
    }

    const batch_rule& rule_;
    const std::size_t most_;
    const infer_call* first_ = nullptr;
    std::size_t rows_ = 0;
    std::size_t preferred_calls_ = 0;  // of the largest preferred batch
    bool is_closed_ = false;
    next_batch found_;
};

}  // namespace

call_queue::call_queue(std::string whose, const model_config& config)
    : whose_(std::move(whose)),
      most_(config.queue),
      timeout_us_(config.timeout_us),
      default_level_(std::max<std::size_t>(config.default_priority, 1) - 1),
      has_levels_(config.priority_levels != 0),
      levels_(std::max<std::size_t>(config.priority_levels, 1)) {
    for (std::size_t i = 0; i < levels_.size(); ++i) {
        const auto own = config.priority_queue_policy.find(i + 1);
        levels_[i].policy = own == config.priority_queue_policy.end() ? config.default_queue_policy : own->second;
    }
}

std::size_t call_queue::level_of(std::size_t priority) const {
    if (priority == 0) return default_level_;
    if (!has_levels_) {
        throw refusal(refusal_kind::bad_request, "the request has the priority " + std::to_string(priority) + "; " +
                                                     whose_ + " has no priorities (priority_levels)");
    }
    if (priority > levels_.size()) {
        throw refusal(refusal_kind::bad_request, "the request has the priority " + std::to_string(priority) + "; " +
                                                     whose_ + " has the priorities 1 to " +
                                                     std::to_string(levels_.size()));
    }
    return priority - 1;
}

refusal call_queue::why_full(std::size_t waiting) const {
    return {refusal_kind::queue_full, "the queue of " + whose_ + " is full: " + wait_text(waiting), waiting};
}

void call_queue::require_room(std::size_t at) const {
    if (is_full()) throw why_full(size_);
    const level& its = levels_[at];
    if (its.policy.queue == 0 || its.size() < its.policy.queue) return;
    const std::string which =
        has_levels_ ? "the queue of priority " + std::to_string(at + 1) + " of " : "the queue of ";
    throw refusal(refusal_kind::queue_full, which + whose_ + " is full: " + wait_text(its.size()), its.size());
}

void call_queue::set_times(waiting_call& call, const queue_policy& policy) const {
    std::chrono::microseconds timeout(policy.timeout_us);
    if (policy.allow_timeout_override && call.call->timeout && call.call->timeout->count() != 0)
        timeout = timeout.count() == 0 ? *call.call->timeout : std::min(timeout, *call.call->timeout);
    const bool delays = policy.timeout_action == timeout_action::delay;
    if (timeout.count() != 0) (delays ? call.yields_at : call.deadline) = call.since + timeout;
    if (timeout_us_ == 0) return;
    const auto latest = call.since + std::chrono::microseconds(timeout_us_);
    call.deadline = std::min(call.deadline.value_or(latest), latest);
}

void call_queue::push(waiting_call call) {
    const std::size_t at = level_of(call.call->priority);
    require_room(at);
    set_times(call, levels_[at].policy);
    levels_[at].in_time.push_back(std::move(call));
    ++size_;
}

// True: the call has left its place.
bool call_queue::sort_out(level& its, std::deque<waiting_call>& part, std::size_t at, clock::time_point now,
                          std::vector<waiting_call>& left_out) {
    waiting_call& call = part[at];
    const bool leaves = call.is_left_out(now);
    const bool yields = &part == &its.in_time && call.yields_at && *call.yields_at < now;
    if (!leaves && !yields) return false;
    if (leaves) {
        left_out.push_back(std::move(call));
        --size_;
    } else {
        its.delayed.push_back(std::move(call));
        ++delayed_;
    }
    part.erase(part.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
}

next_batch call_queue::look(const batch_rule& rule, clock::time_point now, std::vector<waiting_call>& left_out) {
    batch_builder batch(rule);
    for (level& its : levels_) {
        for (std::deque<waiting_call>* const part : {&its.in_time, &its.delayed}) {
            for (std::size_t at = 0; at < part->size();) {
                if (sort_out(its, *part, at, now, left_out)) continue;
                if (!batch.add((*part)[at], part == &its.in_time)) return batch.take();
                ++at;
            }
        }
    }
    return batch.take();
}

std::optional<waiting_call> call_queue::take_first() noexcept {
    for (level& its : levels_) {
        for (std::deque<waiting_call>* const part : {&its.in_time, &its.delayed}) {
            if (part->empty()) continue;
            std::optional<waiting_call> first(std::move(part->front()));
            part->pop_front();
            --size_;
            return first;
        }
    }
    return std::nullopt;
}

std::vector<waiting_call> call_queue::take(std::size_t calls) {
    std::vector<waiting_call> taken;
    taken.reserve(calls);
    for (level& its : levels_) {
        for (std::deque<waiting_call>* const part : {&its.in_time, &its.delayed}) {
            while (taken.size() < calls && !part->empty()) {
                taken.push_back(std::move(part->front()));
                part->pop_front();
            }
        }
    }
    size_ -= taken.size();
    return taken;
}

}  // namespace sluice::serve
