// SPDX-License-Identifier: Apache-2.0
#include "check/checker.hpp"

#include <utility>

namespace sluice::check {
namespace {

constexpr std::size_t most_functions = 65'536;

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
        case call::event_destroy: return streams_.destroy_event(what.id);
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
    work made = work_of(what, what.what, memory_);
    if (on.capture != 0) return capture_work(on, {by, std::move(made.uses), {}});
    check_outside_capture(what, by);
    if (made.host_waits_before) static_cast<void>(streams_.host_waits(on));
    const moment at = streams_.submit(on);
    for (const access& each : made.uses) use(each, at, on.clock, by);
    if (made.host_waits_after) static_cast<void>(streams_.host_waits(on));
}

void checker::use_host(const event& what) {
    const moment now = streams_.host_use();
    const call_ref by = findings_.ref_of(what, words_for(what, call::host), true);
    use({what.to, what.mode}, now, streams_.host(), by);
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
        return findings_.add(
            fault::wait_without_record, true, {}, findings_.ref_of(what, did),
            "stream " + stream + " waits for event " + name + ", which was not recorded before: CUDA does not wait", {},
            "record the event before: cudaEventRecord(event" + name + ", the stream with the work);");
    }
    hint_if(!streams_.wait(waiter, *awaited), what, did);
}

void checker::host_waits(const event& what) {
    const std::string did = words_for(what, what.what);
    if (what.what == call::stream_sync) return hint_if(!streams_.host_waits(streams_.find(what.stream)), what, did);
    if (what.what == call::device_sync) return hint_if(!streams_.host_waits_for_device(what.device), what, did);
    event_state* const awaited = streams_.find_event(what.id);
    if (awaited == nullptr || !awaited->upto) {
        return findings_.add(fault::wait_without_record, true, {}, findings_.ref_of(what, did, true),
                             "the host waits for event " + std::to_string(what.id) +
                                 ", which was not recorded before: CUDA does not wait",
                             {}, {});
    }
    awaited->is_awaited = true;
    hint_if(!streams_.host_waits(*awaited->upto), what, did);
}

void checker::finish(check_report& to) {
    findings_.finish(to);
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
