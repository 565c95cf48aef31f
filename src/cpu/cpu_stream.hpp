// SPDX-License-Identifier: Apache-2.0
// A stream on a CPU device: a queue of commands that one worker at a time runs, in order. A thread that waits for the
// stream takes the place of a worker, if none has begun.
//
// Invariants (all under mutex_): `scheduled_` is true from when the stream is given to the worker_pool until a worker
// finds its queue empty. A stream that waits for another stays scheduled and is in that stream's `parked_`. `passed_`
// only grows, and a ticket is passed only after the command and what it owned are destroyed.
//
// A stream inherits the priority of the most urgent stream parked on it, and passes it on to the stream that it waits
// for itself (priority inheritance): otherwise streams of middle priority could keep the workers from what an urgent
// stream waits for. When the parked streams have continued, the stream has its own priority again. Only one stream's
// lock is held at a time; so until its next command ends, a stream may be more urgent than necessary, but never less.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <variant>

#include "cpu/closure_copy.hpp"
#include "cpu/ring_queue.hpp"
#include "cpu/worker_pool.hpp"
#include "runtime/graph_replay.hpp"
#include "runtime/runs_at_once.hpp"
#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cpu {

class cpu_mark;

class cpu_stream final : public stream_interpreter, public detail::runs_at_once {
public:
    cpu_stream(worker_pool& workers, command_queue& owner, int priority)
        : workers_(workers), owner_(owner), priority_(priority), place_(*this, priority) {}

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket order_after(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override {}
    void wait(ticket upto, wait_mode mode) override;
    void trim() noexcept override;
    bool change(const stream_options& options) noexcept override;

    std::exception_ptr run_at_once(const detail::replay_list& list) override;

    // Runs commands until there are none, one must wait, or it is another stream's turn. Called by one worker at a
    // time.
    void run() { run(0); }

private:
    struct launch_record {
        void (*function)(const void*);
        closure_copy closure;
        std::string_view name;
        source_location location;
        bool may_fail;
    };
    struct library_record {
        void (*call)(const native_stream&, const void*);
        closure_copy closure;
    };
    struct host_record {
        std::function<void()> call;
    };
    struct graph_record {
        std::shared_ptr<const detail::replay_list> list;
        std::shared_ptr<const void> owner;
    };
    struct wait_record {
        cpu_stream* other;
        ticket upto;
    };
    struct mark_record {
        std::shared_ptr<cpu_mark> mark;
    };
    using action = std::variant<std::monostate, copy_command, fill_command, launch_record, library_record, host_record,
                                graph_record, wait_record, mark_record>;
    struct record {
        action what;
        detail::outcome_ref outcome = {};  // what the command depends on; null for nothing
    };

    enum class step { go_on, yield_worker, drained };

    class turn_on_worker;
    // The same; `upto` other than 0 ends it after that ticket, and not when it is another stream's turn.
    void run(ticket upto);
    void help(ticket upto);
    bool run_here(ticket upto);

    void push(record next);
    step advance(bool turn_is_over, record& next, cpu_stream*& satisfied);
    bool is_passed_or_park(cpu_stream& who, ticket upto);
    bool park_unless_passed(const wait_record& wait);
    void raise_urgency(int urgency) noexcept;
    bool execute(record& command);  // returns false when the stream was parked
    void perform(const action& what) const;
    void perform(record& command) const noexcept;
    // Called with the lock held.
    cpu_stream* take_satisfied(ticket now);
    void stamp_end();
    void restore_urgency() noexcept;

    worker_pool& workers_;
    command_queue& owner_;
    std::atomic<ticket> passed_{0};
    ticket running_ = 0;  // the ticket of the running command, or of the last one; used by the worker only
    std::mutex mutex_;
    std::condition_variable host_wake_;
    int host_waiters_ = 0;
    bool scheduled_ = false;
    ring_queue<record> queue_;
    cpu_stream* parked_ = nullptr;       // list of the streams that wait for this one
    cpu_stream* next_parked_ = nullptr;  // next in the list of the stream that this one waits for
    ticket parked_until_ = 0;
    cpu_stream* waits_for_ = nullptr;  // while it is parked, or about to be
    int priority_;                     // as requested in stream_options
    worker_pool::place place_;
};

}  // namespace sluice::cpu
