// A simulated stream: a queue of commands that the engine takes the first of when it pleases.
//
// Tickets here are the queue's; moments are counted from the schedule's begin. A command has run when `executed_` has
// reached its ticket; the host has seen it passed when it was told so, by passed().
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sim/checker.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/outcome.hpp"
#include "sluice/runtime/trace.hpp"

namespace sluice::sim::detail {

class engine;
class sim_stream;

using nanoseconds = std::uint64_t;  // of virtual time, since the schedule's begin

struct graph_run;
struct sim_mark;

// What a command owned, when it has run: let go of where that can do no harm.
struct remains {
    std::function<void()> call;
    std::shared_ptr<const void> owner;
};

class sim_stream final : public stream_interpreter {
public:
    // Throws errc::unsupported when there are too many.
    sim_stream(engine& in, command_queue& owner);
    ~sim_stream() override;

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket wait_for(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override;
    void poll() noexcept override;
    void await(ticket upto, wait_mode mode) override;
    bool needs_watching() const noexcept override;
    ticket sighted() const noexcept override { return executed_; }

    void abandon() noexcept override;

    // For the engine.

    void begin();
    // Whether its first entry is a command that can run; deals with waits and marks on the way.
    bool make_ready();
    std::uint64_t next_number() const { return records_[head_].number; }  // needs make_ready()
    bool is_before_host_call() const;                                     // the same
    nanoseconds run_first();                                              // its virtual end
    bool is_idle() const noexcept { return head_ == records_.size(); }
    // Whether it stands before a wait, and for what: after make_ready() has said no.
    bool is_stuck(actor& waiter, actor& awaited) const;
    // What has run, the host sees, and whoever waits in the queue is told of.
    void catch_up() noexcept;
    void tell() noexcept;
    bool has_untold() const noexcept { return told_ < executed_; }
    actor describe(moment when) const;
    actor describe_next() const { return describe(moment_of(executed_) + 1); }
    // What has run of this schedule.
    void describe(trace& in, std::size_t device) const;
    // The device has broken down: what is in flight will not be seen to end.
    void never_ends() noexcept;
    command_queue& owner() const noexcept { return owner_; }
    ticket executed() const noexcept { return executed_; }

private:
    enum class kind : unsigned char { copy, fill, launch, library_call, host_call, graph, wait, mark };
    struct record {
        kind what = kind::wait;
        std::uint64_t number = 0;     // in the order of submission
        std::uint32_t host_then = 0;  // the host's clock, a snapshot
        moment when = 0;
        nanoseconds submitted = 0;
        std::span<const named_block> accesses;
        void* destination = nullptr;
        const void* source = nullptr;  // of a copy; the closure of a launch or a library call
        std::size_t bytes = 0;
        unsigned char value = 0;
        void (*launch)(const void*) = nullptr;
        void (*library)(const native_stream&, const void*) = nullptr;
        const graph_run* graph = nullptr;  // which `owned` keeps
        sluice::detail::outcome_ref outcome;
        remains owned;
        sim_stream* awaited = nullptr;
        ticket upto = 0;
        std::shared_ptr<sim_mark> mark;
    };
    struct note {
        std::string_view name;
        std::string_view operation;
        source_location where;
        trace_kind kind = trace_kind::kernel;
        std::size_t bytes = 0;
        nanoseconds start = 0;
        nanoseconds end = 0;
    };
    struct waited {
        const sim_stream* awaited;
        moment upto;
        moment before;  // the command that came after
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

    engine& engine_;
    command_queue& owner_;
    const thread_index thread_;
    std::vector<record> records_;
    std::size_t head_ = 0;
    ticket base_ = 0;  // the last one of the schedules before
    ticket issued_ = 0;
    ticket executed_ = 0;
    ticket known_ = 0;  // as of the last poll or wait
    ticket told_ = 0;   // those who wait in the queue
    vector_clock clock_;
    std::vector<vector_clock> clocks_;  // by moment, of commands that have run
    std::vector<note> notes_;           // by moment
    std::vector<waited> waits_;
    nanoseconds time_ = 0;
};

}  // namespace sluice::sim::detail
