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
#include <vector>

#include "cpu/closure_copy.hpp"
#include "cpu/executor.hpp"
#include "cpu/ring_queue.hpp"
#include "runtime/failure_log.hpp"
#include "sluice/runtime/interpreter.hpp"

namespace sluice::cpu {

class cpu_mark;

class cpu_stream final : public stream_interpreter {
public:
    cpu_stream(executor& workers, stream& owner) : workers_(workers), owner_(owner) { workers.add_stream(); }

    void copy(const command_info& info, const copy_command& command) override;
    void fill(const command_info& info, const fill_command& command) override;
    void launch(const command_info& info, const launch_command& command) override;
    std::exception_ptr library_call(const command_info& info, const library_command& command) override;
    void host_call(const command_info& info, host_command command) override;
    ticket wait_for(stream_interpreter& other, ticket upto) override;
    std::unique_ptr<timed_mark> mark() override;

    native_stream native() const noexcept override { return {device_kind::cpu, nullptr, &owner_}; }
    ticket passed() const noexcept override { return passed_.load(std::memory_order_acquire); }
    void poll() noexcept override {}
    void await(ticket upto, wait_mode mode) override;
    void rethrow_failure(ticket after, ticket upto, std::thread::id submitter) override {
        failures_.rethrow(after, upto, submitter);
    }

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
        std::thread::id submitter;
    };
    struct host_record {
        std::function<void()> call;
        std::thread::id submitter;
    };
    struct wait_record {
        cpu_stream* other;
        ticket upto;
    };
    struct mark_record {
        std::shared_ptr<cpu_mark> mark;
    };
    using record = std::variant<std::monostate, copy_command, fill_command, launch_record, library_record, host_record,
                                wait_record, mark_record>;
    struct waiter {
        cpu_stream* who;
        ticket upto;
    };

    enum class step { go_on, turn_over, drained };

    void push(record next);
    step advance(bool turn_is_over, record& next, std::vector<waiter>& satisfied);
    bool is_passed_or_park(cpu_stream& who, ticket upto);
    bool execute(record& command);  // false: parked
    void perform(const launch_record& command) const { command.function(command.closure.get()); }
    void perform(const library_record& command) const { command.call(native(), command.closure.get()); }
    void perform(const host_record& command) const { command.call(); }
    template <typename Command>
    void perform_noting_failure(const Command& command);
    void wake(std::vector<waiter>& satisfied);
    void take_satisfied(ticket now, std::vector<waiter>& satisfied);  // lock held

    executor& workers_;
    stream& owner_;
    std::atomic<ticket> passed_{0};
    ticket running_ = 0;  // the ticket of the command being run, or of the last one; the worker's
    std::mutex mutex_;
    std::condition_variable host_wake_;
    int host_waiters_ = 0;
    bool scheduled_ = false;
    ring_queue<record> queue_;
    std::vector<waiter> waiters_;
    detail::failure_log failures_;
};

}  // namespace sluice::cpu
