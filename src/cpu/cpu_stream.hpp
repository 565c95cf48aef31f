// A stream on a CPU device: a queue of commands that one worker at a time runs, in order.
//
// Invariants (all under mutex_): `scheduled_` is true from when the stream is given to the executor until a
// worker finds its queue empty; a stream parked behind another stays scheduled and is in that stream's
// waiters_. passed_ only grows, and a ticket is passed only after the command and what it owned are gone.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <variant>

#include "cpu/closure_copy.hpp"
#include "cpu/executor.hpp"
#include "cpu/ring_queue.hpp"
#include "runtime/graph_replay.hpp"
#include "sluice/runtime/interpreter.hpp"
#include "sluice/runtime/outcome.hpp"

namespace sluice::cpu {

class cpu_mark;

class cpu_stream final : public stream_interpreter {
public:
    cpu_stream(executor& workers, command_queue& owner, int priority)
        : workers_(workers), owner_(owner), line_(workers.add_stream(priority)) {}

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    void graph(const command_info& info, const graph_command& command) override;
    ticket wait_for(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override;
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override {}
    void await(ticket upto, wait_mode mode) override;

    executor::line& line() const noexcept { return line_; }
    // Runs commands until there are none, one must wait, or others should have their turn. Called by a
    // worker, which nobody else does for this stream at the same time.
    void run();

private:
    struct launch_record {
        void (*function)(const void*);
        closure_copy closure;
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
        detail::outcome_ref outcome = {};  // what the command hangs on; null for nothing
    };

    enum class step { go_on, turn_over, drained };

    void push(record next);
    step advance(bool turn_is_over, record& next, cpu_stream*& satisfied);
    bool is_passed_or_park(cpu_stream& who, ticket upto);
    bool execute(record& command);  // false: parked
    void perform(const action& what) const;
    void perform(record& command) const noexcept;
    // With the lock held.
    cpu_stream* take_satisfied(ticket now);
    void stamp_end();

    executor& workers_;
    command_queue& owner_;
    executor::line& line_;
    std::atomic<ticket> passed_{0};
    ticket running_ = 0;  // the ticket of the command being run, or of the last one; the worker's
    std::mutex mutex_;
    std::condition_variable host_wake_;
    int host_waiters_ = 0;
    bool scheduled_ = false;
    ring_queue<record> queue_;
    cpu_stream* parked_ = nullptr;       // streams that wait for this one: a list
    cpu_stream* next_parked_ = nullptr;  // for the stream that this one waits for
    ticket parked_until_ = 0;
};

}  // namespace sluice::cpu
