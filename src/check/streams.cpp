// SPDX-License-Identifier: Apache-2.0
#include "check/streams.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace sluice::check {
namespace {

constexpr std::size_t most_lost = 8;

void keep_last(std::vector<lost_record>& list, const lost_record& added) {
    if (list.size() == most_lost) list.erase(list.begin());
    list.push_back(added);
}

std::uint32_t next(std::uint32_t count) {
    if (count == std::numeric_limits<std::uint32_t>::max()) throw trace_refusal("a stream has more than 2^32 commands");
    return count + 1;
}

}  // namespace

void streams::declare(const event& from) {
    if (const auto old = by_id_.find(from.stream); old != by_id_.end()) destroy(from.stream);
    // A timeline is used again when all of its work is known to be complete, so that nothing new is ordered by it.
    auto place =
        std::ranges::find_if(all_, [&](const auto& each) { return each->is_destroyed && host_.covers(each->last()); });
    if (place == all_.end()) {
        if (all_.size() == most_streams)
            throw trace_refusal("there are more than " + std::to_string(most_streams) + " streams at a time");
        all_.push_back(std::make_unique<stream_state>());
        place = all_.end() - 1;
    }
    stream_state made;
    made.id = from.stream;
    made.device = from.device;
    made.kind = from.kind;
    made.timeline = static_cast<timeline_index>(place - all_.begin() + 1);
    made.commands = (*place)->commands;
    **place = std::move(made);
    by_id_[from.stream] = static_cast<std::size_t>(place - all_.begin());
}

void streams::destroy(std::uint64_t id) {
    find(id).is_destroyed = true;  // its work continues
    by_id_.erase(id);
}

stream_state& streams::find(std::uint64_t id) {
    const auto at = by_id_.find(id);
    if (at == by_id_.end()) throw trace_refusal("stream " + std::to_string(id) + " is not declared");
    return *all_[at->second];
}

// The legacy default stream waits for all blocking streams of its device, and they wait for it.
void streams::join_default_stream(stream_state& to) {
    if (to.kind == stream_kind::non_blocking) return;
    for (const auto& each : all_) {
        if (each.get() == &to || each->device != to.device || each->kind == stream_kind::non_blocking) continue;
        if (to.kind == stream_kind::legacy || each->kind == stream_kind::legacy) to.clock.join(each->clock);
    }
}

moment streams::submit(stream_state& to) {
    to.clock.join(host_);
    join_default_stream(to);
    to.commands = next(to.commands);
    to.clock.join(to.last());
    return to.last();
}

moment streams::host_use() {
    host_uses_ = next(host_uses_);
    const moment now{host_timeline, host_uses_};
    host_.join(now);
    return now;
}

event_state* streams::find_event(std::uint64_t id) noexcept {
    const auto at = events_.find(id);
    return at == events_.end() ? nullptr : &at->second;
}

event_state& streams::event_of(std::uint64_t id) {
    const auto at = events_.find(id);
    if (at != events_.end()) return at->second;
    if (events_.size() == most_events)
        throw trace_refusal("there are more than " + std::to_string(most_events) + " events at a time");
    return events_[id];
}

void streams::record(event_state& what, stream_state& on, const call_ref& by) {
    if (what.upto && !what.is_awaited && what.recorded.timeline != on.timeline)
        keep_last(what.lost, {what.recorded, by});
    if (what.is_awaited) what.lost.clear();
    what.recorded = submit(on);
    what.upto = std::make_shared<const vector_clock>(on.clock);
    what.by = by;
    what.is_awaited = false;
    what.capture = 0;
    what.tail.clear();
}

bool streams::wait(stream_state& waiter, event_state& what) {
    for (const lost_record& each : what.lost) keep_last(waiter.lost, each);
    what.is_awaited = true;
    waiter.clock.join(host_);
    join_default_stream(waiter);
    const bool is_new = !waiter.clock.covers(*what.upto);
    waiter.clock.join(*what.upto);
    return is_new;
}

bool streams::host_waits(const vector_clock& what) {
    if (host_.covers(what)) return false;
    host_.join(what);
    return true;
}

bool streams::host_waits(stream_state& what) {
    if (what.kind == stream_kind::legacy) join_default_stream(what);
    return host_waits(what.clock);
}

bool streams::host_waits_for_device(std::uint64_t device) {
    bool is_new = false;
    for (const auto& each : all_) {
        if (each->device == device) is_new |= host_waits(*each);
    }
    return is_new;
}

void streams::end_capture(std::uint64_t number) {
    for (const auto& each : all_) {
        if (each->capture != number) continue;
        each->capture = 0;
        each->tail.clear();
    }
}

bool streams::host_waits_for_all() {
    bool is_new = false;
    for (const auto& each : all_) is_new |= host_waits(*each);
    return is_new;
}

}  // namespace sluice::check
