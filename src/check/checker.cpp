// SPDX-License-Identifier: Apache-2.0
#include "check/checker.hpp"

#include <algorithm>
#include <utility>

namespace sluice::check {
namespace {

constexpr std::size_t most_functions = 65'536;
constexpr std::size_t most_pictured = 24;  // commands of a picture

constexpr std::size_t most_early_waits = 16;  // of an event

// The same place: by the stack, or by who waits where there is none.
void forget_early(event_state& of, const event& by) {
    const bool is_host = by.what == call::event_sync;
    std::erase_if(of.early,
                  [&](const early_wait& each) { return each.by.stack == by.stack && each.by.is_host == is_host; });
}

}  // namespace

std::string words_for(const event& from, call what) {
    const std::string bytes = std::to_string(from.to.bytes * (from.to.rows == 0 ? 1 : from.to.rows)) + " bytes";
    switch (what) {
        case call::kernel: return "kernel " + from.name;
        case call::copy: return "copy of " + bytes;
        case call::fill: return "fill of " + bytes;
        case call::host_func: return "host function" + (from.name.empty() ? "" : " " + from.name);
        case call::alloc: return "allocation of " + bytes;
        case call::free: return "free";
        case call::record: return "record of event " + std::to_string(from.id);
        case call::wait: return "wait for event " + std::to_string(from.id);
        case call::event_sync: return "synchronisation with event " + std::to_string(from.id);
        case call::stream_sync: return "synchronisation with stream " + std::to_string(from.stream);
        case call::device_sync: return "synchronisation with device " + std::to_string(from.device);
        case call::capture_begin: return "begin of a capture";
        case call::capture_end: return "end of a capture";
        case call::graph_launch: return "launch of graph " + std::to_string(from.other);
        case call::host: return from.mode == access_mode::read ? "the host's read" : "the host's write";
        default: return "call";
    }
}

void checker::name_function(event& what) const {
    if (what.function == 0 || what.what == call::function) return;
    const auto known = functions_.find(what.function);
    if (known == functions_.end())
        throw trace_refusal("function " + std::to_string(what.function) + " is not declared");
    what.name = known->second;
}

void checker::take(event& what) {
    name_function(what);
    switch (what.what) {
        case call::stream: streams_.declare(what); return findings_.name_stream(what.stream, what.device, what.kind);
        case call::stream_destroy: return streams_.destroy(what.stream);
        case call::alloc: return allocate(what);
        case call::free: return free(what);
        case call::copy:
        case call::fill:
        case call::kernel:
        case call::host_func: return submit(what);
        case call::host: return use_host(what);
        case call::function:
            if (functions_.size() < most_functions) functions_[what.function] = std::move(what.name);
            return;
        case call::frames: return findings_.add_stack(what.stack, std::move(what.frames));
        case call::unseen:
            if (unseen_.size() < 256 || unseen_.contains(what.name)) ++unseen_[what.name];
            return;
        default: take_order(what);
    }
}

void checker::take_order(const event& what) {
    switch (what.what) {
        case call::record: return record(what);
        case call::wait: return wait(what);
        case call::event_sync:
        case call::stream_sync:
        case call::device_sync: return host_waits(what);
        case call::event_done:
            if (event_state* const done = streams_.find_event(what.id); done != nullptr && done->upto) {
                done->is_awaited = true;
                streams_.host_waits(*done->upto);
            }
            return;
        case call::stream_done: static_cast<void>(streams_.host_waits(streams_.find(what.stream))); return;
        case call::event_destroy:
            if (event_state* const ended = streams_.find_event(what.id)) report_early(*ended);
            return streams_.destroy_event(what.id);
        case call::capture_begin: return begin_capture(what);
        case call::capture_end: return end_capture(what);
        case call::graph: return graphs_.add(what.id, {});
        case call::node: return add_node(what);
        case call::edge: return graphs_.connect(graphs_.find(what.id), what.from.at, what.to.at);
        case call::instantiate: return instantiate(what);
        case call::graph_launch: return launch(what);
        case call::graph_destroy: return graphs_.destroy(what.id);
        case call::exec_destroy: return graphs_.destroy_exec(what.other);
        default: return;
    }
}

void checker::submit(const event& what) {
    stream_state& on = streams_.find(what.stream);
    const call_ref by = findings_.ref_of(what, words_for(what, what.what));
    if (what.failed) return refuse_in_capture(on, by);
    work made = work_of(what, what.what, memory_);
    if (on.capture != 0) return capture_work(on, {by, std::move(made.uses), {}});
    check_outside_capture(what, by);
    if (made.host_waits_before) static_cast<void>(streams_.host_waits(on));
    const moment at = streams_.submit(on);
    note(at, on.clock, by);
    for (const access& each : made.uses) {
        if (what.what == call::copy) check_refill(each, by);
        use(each, at, on.clock, by);
    }
    if (made.host_waits_after) static_cast<void>(streams_.host_waits(on));
}

void checker::use_host(const event& what) {
    const moment now = streams_.host_use();
    const call_ref by = findings_.ref_of(what, words_for(what, call::host), true);
    note(now, streams_.host(), by);
    use({what.to, what.mode}, now, streams_.host(), by);
}

void checker::wait_early(const event& what, early_wait made) {
    std::vector<early_wait>& known = streams_.event_of(what.id).early;
    const bool is_new = std::ranges::none_of(known, [&](const early_wait& each) {
        return each.by.stack == made.by.stack && each.by.is_host == made.by.is_host;
    });
    if (is_new && known.size() < most_early_waits) known.push_back(std::move(made));
}

void checker::report_early(event_state& of) {
    for (const early_wait& each : of.early)
        findings_.add(fault::wait_without_record, true, {}, each.by, each.message, {}, each.remedy);
    of.early.clear();
}

void checker::refuse_in_capture(const stream_state& on, const call_ref& by) {
    if (on.capture == 0) return;
    findings_.add(
        fault::dropped_by_capture, true, captures_[on.capture].began, by,
        findings_.words_of(by) + " is refused, because the stream is being captured: the graph does not have it", {},
        "check what the call returns; copy by cudaMemcpyAsync during a capture");
}

void checker::hint_if(bool is_useless, const event& what, const std::string& did) {
    if (!is_useless) return;
    const call_ref by = findings_.ref_of(what, did, what.what != call::wait);
    findings_.add(fault::useless_wait, true, {}, by, did + " waits for nothing that is not known to be complete", {},
                  {});
}

void checker::wait(const event& what) {
    stream_state& waiter = streams_.find(what.stream);
    event_state* const awaited = streams_.find_event(what.id);
    if (awaited != nullptr && join_capture(waiter, *awaited)) return;
    const std::string did = words_for(what, call::wait);
    if (awaited == nullptr || !awaited->upto) {
        const std::string name = std::to_string(what.id), stream = std::to_string(what.stream);
        return wait_early(
            what,
            {findings_.ref_of(what, did),
             "stream " + stream + " waits for event " + name + ", which was not recorded before: CUDA does not wait",
             "record the event before: cudaEventRecord(event" + name + ", the stream with the work);"});
    }
    forget_early(*awaited, what);
    hint_if(!streams_.wait(waiter, *awaited), what, did);
}

void checker::host_waits(const event& what) {
    const std::string did = words_for(what, what.what);
    if (what.what == call::stream_sync) return hint_if(!streams_.host_waits(streams_.find(what.stream)), what, did);
    if (what.what == call::device_sync) return hint_if(!streams_.host_waits_for_device(what.device), what, did);
    event_state* const awaited = streams_.find_event(what.id);
    if (awaited == nullptr || !awaited->upto) {
        return wait_early(what, {findings_.ref_of(what, did, true),
                                 "the host waits for event " + std::to_string(what.id) +
                                     ", which was not recorded before: CUDA does not wait",
                                 {}});
    }
    forget_early(*awaited, what);
    awaited->is_awaited = true;
    hint_if(!streams_.host_waits(*awaited->upto), what, did);
}

void checker::note(moment at, const vector_clock& known, const call_ref& by) {
    if (options_.pictures != 0) log_.note(at, known, by);
}

void checker::finish(check_report& to) {
    streams_.for_events([&](event_state& each) { report_early(each); });
    findings_.finish(to);
    for (std::size_t i = 0; i < std::min(options_.pictures, to.findings.size()); ++i) {
        finding& each = to.findings[i];
        for (const logged_call& call : log_.around(each.first.call, each.second.call, most_pictured)) {
            place at = findings_.place_of(call.by);
            at.frames.clear();
            each.picture.push_back({std::move(at), {call.after.begin(), call.after.end()}});
        }
    }
    if (log_.is_cut()) to.unseen.push_back("pictures of what comes late: there are too many commands");
    for (const auto& [name, times] : unseen_)
        to.unseen.push_back(name + " (" + std::to_string(times) + (times == 1 ? " call" : " calls") + ")");
    if (unknown_uses_ != 0)
        to.unseen.push_back(std::to_string(unknown_uses_) + " uses of memory whose allocation is not in the trace");
    if (wide_graphs_ != 0)
        to.unseen.push_back("the order within " + std::to_string(wide_graphs_) + " graphs that are too large");
    if (memory_.forgotten() != 0)
        to.unseen.push_back(std::to_string(memory_.forgotten()) +
                            " uses of memory that were forgotten because nothing waited for them for too long");
}

}  // namespace sluice::check
