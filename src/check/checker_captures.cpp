// SPDX-License-Identifier: Apache-2.0
// The checker's part for captures and graphs.
#include <algorithm>
#include <string>
#include <utility>

#include "check/checker.hpp"

namespace sluice::check {
namespace {

constexpr std::size_t most_open_ends = 1024;

void merge(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
    std::ranges::sort(to);
    to.erase(std::ranges::unique(to).begin(), to.end());
}

}  // namespace

void checker::begin_capture(const event& what) {
    stream_state& on = streams_.find(what.stream);
    if (on.capture != 0) throw trace_refusal("stream " + std::to_string(what.stream) + " is being captured already");
    if (captures_.size() == streams::most_streams) throw trace_refusal("there are too many captures at a time");
    on.capture = ++last_capture_;
    on.tail.clear();
    captures_[on.capture] = {{}, findings_.ref_of(what, words_for(what, call::capture_begin)), what.stream};
}

void checker::capture_work(stream_state& on, graph_node node) {
    node.after = on.tail;
    graph& to = captures_[on.capture].made;
    on.tail = {graphs_.add_node(to, std::move(node))};
}

void checker::record(const event& what) {
    stream_state& on = streams_.find(what.stream);
    event_state& state = streams_.event_of(what.id);
    const call_ref by = findings_.ref_of(what, words_for(what, call::record));
    if (on.capture == 0) return streams_.record(state, on, by);
    state.upto.reset();
    state.capture = on.capture;
    // A capture has no more open ends than streams that work at a time; events keep copies of them.
    if (on.tail.size() > most_open_ends) throw trace_refusal("a capture has more than 1,024 open ends");
    state.tail = on.tail;
}

// A stream that waits for an event of a capture belongs to that capture from then on.
bool checker::join_capture(stream_state& waiter, const event_state& awaited) {
    if (awaited.capture == 0 || !captures_.contains(awaited.capture)) return waiter.capture != 0;
    if (waiter.capture == 0) {
        waiter.capture = awaited.capture;
        waiter.tail = awaited.tail;
    } else if (waiter.capture == awaited.capture) {
        merge(waiter.tail, awaited.tail);
    }
    return true;
}

void checker::end_capture(const event& what) {
    stream_state& on = streams_.find(what.stream);
    const auto at = captures_.find(on.capture);
    if (at == captures_.end()) throw trace_refusal("stream " + std::to_string(what.stream) + " is not being captured");
    const capture ended = std::move(at->second);
    captures_.erase(at);
    const std::vector<std::uint32_t> tail = std::exchange(on.tail, {});
    streams_.end_capture(std::exchange(on.capture, 0));
    const call_ref by = findings_.ref_of(what, words_for(what, call::capture_end));
    const std::string count = std::to_string(ended.made.nodes.size());
    const graph_node* const lost = find_unjoined(ended.made, tail);
    if (lost == nullptr && !what.failed) return graphs_.add(what.id, ended.made);
    graphs_.drop(ended.made);
    if (lost != nullptr) {
        const std::string from = std::to_string(lost->by.stream), to = std::to_string(what.stream);
        return findings_.add(fault::dropped_by_capture, true, lost->by, by,
                             findings_.words_of(lost->by) + " was captured and never joined to stream " + to +
                                 ": the capture fails, and its " + count + " commands are dropped",
                             {},
                             "cudaEventRecord(event, stream" + from +
                                 ");  // after the first; cudaStreamWaitEvent(stream" + to +
                                 ", event);  // before the end");
    }
    if (ended.made.nodes.empty()) return;
    findings_.add(fault::dropped_by_capture, true, ended.made.nodes.front().by, by,
                  "the capture failed, and its " + count + " commands are dropped", {}, {});
}

void checker::check_outside_capture(const event& what, const call_ref& by) {
    for (const auto& [number, each] : captures_) {
        if (each.began.thread != what.thread) continue;
        findings_.add(fault::outside_capture, true, each.began, by,
                      findings_.words_of(by) + " runs at once while the thread captures stream " +
                          std::to_string(each.origin) + ": launches of the graph do not repeat it",
                      {},
                      "cudaEventRecord(event, stream" + std::to_string(each.origin) + "); cudaStreamWaitEvent(stream" +
                          std::to_string(by.stream) + ", event);  // before it");
    }
}

void checker::add_node(const event& what) {
    graph& to = graphs_.find(what.id);
    graph_node node;
    node.by = findings_.ref_of(what, "node: " + words_for(what, what.node_call), true);
    if (what.node_call != call::unseen) node.uses = work_of(what, what.node_call, memory_).uses;
    for (const std::uint64_t each : what.after) {
        const auto before = to.by_id.find(each);
        if (before == to.by_id.end()) throw trace_refusal("node " + std::to_string(each) + " is not declared");
        node.after.push_back(before->second);
    }
    const std::uint32_t index = graphs_.add_node(to, std::move(node));
    if (!to.by_id.emplace(what.other, index).second)
        throw trace_refusal("node " + std::to_string(what.other) + " is declared twice");
}

void checker::instantiate(const event& what) {
    graph& of = graphs_.find(what.id);
    bool has_conflict = false;
    const auto on_conflict = [&](const access_record& earlier, const access_record& later, conflict kind) {
        // Memory that no allocation covers is the host's own, or not known: graphs have no use of it that conflicts.
        const block* const in = memory_.find(std::max(earlier.used.where.at, later.used.where.at));
        has_conflict |= in != nullptr;
        if (in != nullptr) report(earlier, later, kind, in, ", and no path of the graph orders them");
    };
    if (!std::exchange(of.is_checked, true) && !check_graph(of, on_conflict)) ++wide_graphs_;
    if (has_conflict && options_.pictures != 0) log_.note(of);
    static_cast<void>(graphs_.instantiate(what.other, of));
}

// A launch is one command of its stream: the order within the graph was checked when it was instantiated.
void checker::launch(const event& what) {
    stream_state& on = streams_.find(what.stream);
    graph_exec& launched = graphs_.find_exec(what.other);
    const call_ref by = findings_.ref_of(what, words_for(what, call::graph_launch));
    if (on.capture != 0) {
        graph_node node{by, {}, {}};
        for (const graph_use& each : launched.uses) node.uses.push_back(each.used);
        return capture_work(on, std::move(node));
    }
    check_outside_capture(what, by);
    on.clock.join(launched.upto);
    const moment at = streams_.submit(on);
    launched.upto = on.clock;
    note(at, on.clock, by);
    for (const graph_use& each : launched.uses) {
        call_ref node = by;
        node.name = findings_.name(findings_.name_of(each.by) + " in graph " + std::to_string(what.other));
        use(each.used, at, on.clock, node);
    }
}

}  // namespace sluice::check
