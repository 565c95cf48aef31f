// SPDX-License-Identifier: Apache-2.0
// checker: takes the calls of a program one at a time, and reports what they leave without an order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "check/blocks.hpp"
#include "check/event.hpp"
#include "check/findings.hpp"
#include "check/graphs.hpp"
#include "check/order_log.hpp"
#include "check/streams.hpp"
#include "check/work.hpp"

namespace sluice::check {

class checker {
public:
    explicit checker(const check_options& options) : options_(options), findings_(options) {}

    // Throws trace_refusal.
    void take(event& what);
    void finish(check_report& to);

private:
    struct capture {
        graph made;
        call_ref began;
        std::uint64_t origin = 0;  // a stream
    };

    // checker.cpp
    void name_function(event& what) const;
    void take_order(const event& what);
    void take_graph(event& what);
    void submit(const event& what);
    void use_host(const event& what);
    void wait(const event& what);
    void host_waits(const event& what);
    void wait_early(const event& what, early_wait made);
    void report_early(event_state& of);
    void refuse_in_capture(const stream_state& on, const call_ref& by);
    void hint_if(bool is_useless, const event& what, const std::string& did);

    // checker_memory.cpp
    void allocate(const event& what);
    void free(const event& what);
    void free_in_order(const event& what, block& freed);
    void use(const access& what, moment at, const vector_clock& known, const call_ref& by);
    void check_refill(const access& what, const call_ref& by);
    void report(const access_record& earlier, const access_record& later, conflict kind, const block* in,
                const char* between_what = "");
    void report_freed(const block& was, const call_ref& by);
    fault fault_of(const access_record& earlier, const access_record& later);

    // checker_captures.cpp
    void begin_capture(const event& what);
    void end_capture(const event& what);
    void capture_work(stream_state& on, graph_node node);
    void record(const event& what);
    bool join_capture(stream_state& waiter, const event_state& awaited);
    void check_outside_capture(const event& what, const call_ref& by);
    void add_node(const event& what);
    void instantiate(const event& what);
    void launch(const event& what);

    void note(moment at, const vector_clock& known, const call_ref& by);

    const check_options& options_;
    findings findings_;
    order_log log_;  // empty without pictures
    streams streams_;
    blocks memory_;
    graphs graphs_;
    std::unordered_map<std::uint64_t, std::string> functions_;
    std::map<std::uint64_t, capture> captures_;
    std::uint64_t last_capture_ = 0;
    std::map<std::string, std::uint64_t> unseen_;  // calls that are not followed
    std::uint64_t unknown_uses_ = 0;               // of memory that no allocation covers
    std::uint64_t wide_graphs_ = 0;
};

// "kernel scale(float*)", "copy of 4096 bytes": what the call does.
std::string words_for(const event& from, call what);

}  // namespace sluice::check
