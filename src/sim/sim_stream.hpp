// SPDX-License-Identifier: Apache-2.0
// A simulated stream: a queue of commands; the sim_machine takes the first one whenever the schedule selects the
// stream.
//
// Tickets here are the queue's; moments are counted from the start of the schedule. A command has run when `executed_`
// has reached its ticket. The host has seen it passed when passed() has returned its ticket.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sim/checker.hpp"
#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/trace/trace.hpp"

namespace sluice::sim::detail {

class sim_machine;
class sim_stream;

using nanoseconds = std::uint64_t;  // of virtual time, since the start of the schedule

struct graph_walk;
struct sim_mark;

// What a command owned, kept after it has run and destroyed where that is safe.
struct remains {
    std::function<void()> call;
    std::shared_ptr<const void> owner;
};

class sim_stream final : public stream_interpreter {
public:
    // Throws errc::unsupported when there are too many streams.
    sim_stream(sim_machine& in, command_queue& owner);
    ~sim_stream() override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket order_after(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override;
    void poll() noexcept override;
    void wait(ticket upto, wait_mode mode) override;
    bool needs_watching() const noexcept override;
    ticket last_flag() const noexcept override { return executed_; }

    void abandon() noexcept override;

    // For sim_machine.

    void begin();
    // Whether the first entry is a command that can run; processes the waits and marks before it.
    bool make_ready();
    std::uint64_t next_number() const { return records_[head_].number; }  // after make_ready() has returned true
    bool is_before_host_call() const;                                     // likewise
    nanoseconds run_first();                                              // returns its end in virtual time
    bool is_idle() const noexcept { return head_ == records_.size(); }
    // Whether it is blocked by a wait, and for which command; after make_ready() has returned false.
    bool is_stuck(actor& waiter, actor& awaited) const;
    // The host sees what has run (catch_up), and the waiters in the queue are woken (tell).
    void catch_up() noexcept;
    void tell() noexcept;
    bool has_unnotified() const noexcept { return told_ < executed_; }
    actor describe(moment when) const;
    actor describe_next() const { return describe(moment_of(executed_) + 1); }
    // Adds the commands of this schedule that have run.
    void describe(trace& in, std::size_t device) const;
    // The device has broken down: the end of its commands in flight will never be seen.
    void mark_unfinished() noexcept;
    command_queue& owner() const noexcept { return owner_; }
    ticket executed() const noexcept { return executed_; }

private:
    enum class kind : unsigned char { copy, fill, launch, library_call, host_call, graph, wait, mark };
    struct record {
        kind what = kind::wait;
        std::uint64_t number = 0;     // position in the order of submission
        std::uint32_t host_then = 0;  // number of the snapshot of the host's clock
        moment when = 0;
        nanoseconds submitted = 0;
        std::span<const named_block> accesses;
        void* destination = nullptr;
        const void* source = nullptr;  // of a copy; for a launch or a library call, the closure
        std::size_t bytes = 0;         // of a copy, those of one row
        copied_rows rows;
        unsigned char value = 0;
        void (*launch)(const void*) = nullptr;
        bool launch_may_fail = false;
        void (*library)(const native_stream&, const void*) = nullptr;
        const graph_walk* graph = nullptr;  // kept alive by `owned`
        sluice::detail::outcome_ref outcome;
        remains owned;
        sim_stream* awaited = nullptr;
        ticket upto = 0;
        std::shared_ptr<sim_mark> mark;
    };
    struct note {
        std::string_view name;
        std::string_view operation;
        source_location location;
        trace_kind kind = trace_kind::kernel;
        std::size_t bytes = 0;
        nanoseconds start = 0;
        nanoseconds end = 0;
    };
    struct waited {
        const sim_stream* awaited;
        moment upto;
        moment before;  // the command after the wait
    };

    static trace_kind to_trace_kind(kind what) noexcept;
    record& add(kind what, const command_info& info);
    void added();
    void refuse(const command_info& info);
    void learn(ticket upto) const noexcept;
    void perform(record& command);
    bool is_broken() const noexcept;
    void throw_if_shown_broken() const;
    void perform_body(record& command) const;
    moment moment_of(ticket number) const noexcept { return number <= base_ ? 0 : static_cast<moment>(number - base_); }

    sim_machine& machine_;
    command_queue& owner_;
    const thread_index thread_;
    std::deque<record> records_;  // a running host call may submit here: its own record must not move
    std::size_t head_ = 0;
    ticket base_ = 0;  // the last ticket of earlier schedules
    ticket issued_ = 0;
    ticket executed_ = 0;
    ticket known_ = 0;  // as of the last poll or wait
    ticket told_ = 0;   // as reported to the waiters in the queue
    vector_clock clock_;
    std::vector<vector_clock> clocks_;  // by moment, of commands that have run
    std::vector<note> notes_;           // by moment
    std::vector<waited> waits_;
    nanoseconds time_ = 0;
};

}  // namespace sluice::sim::detail
