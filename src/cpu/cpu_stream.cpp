// SPDX-License-Identifier: Apache-2.0
#include "cpu/cpu_stream.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/guards_aside.hpp"
#include "cpu/cpu_mark.hpp"
#include "cpu/current_core.hpp"
#include "runtime/helping.hpp"
#include "runtime/kernel_call.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::cpu {
namespace {

// After this many commands, or after some 2 ms while others are ready, a stream is queued again after them.
constexpr int turn_commands = 64;
constexpr std::uint64_t turn_ticks = 2;
// A waiter that spins looks so often before it yields at each look: some 10 µs.
constexpr int looks_before_yield = 10'000;

}  // namespace

native_stream cpu_stream::native() const noexcept { return {device_kind::cpu, nullptr, &owner_}; }

void cpu_stream::push(record next) {
    {
        const std::lock_guard lock(mutex_);
        queue_.push(std::move(next));
        if (scheduled_) return;
        scheduled_ = true;
    }
    workers_.schedule(place_);
}

void cpu_stream::copy(const command_info& info, const copy_command& command) {
    push({command, detail::outcome_ref(info.outcome)});
}

void cpu_stream::fill(const command_info& info, const fill_command& command) {
    push({command, detail::outcome_ref(info.outcome)});
}

void cpu_stream::launch(const command_info& info, const launch_command& command) {
    push({launch_record{
              command.host_function, {command.closure, command.closure_bytes}, info.name, info.location, info.may_fail},
          detail::outcome_ref(info.outcome)});
}

std::exception_ptr cpu_stream::library_call(const command_info& info, const library_command& command) {
    push({library_record{command.call, {command.closure, command.closure_bytes}}, detail::outcome_ref(info.outcome)});
    return {};
}

void cpu_stream::host_call(const command_info& info, host_command command) {
    push({host_record{std::move(command.call)}, detail::outcome_ref(info.outcome)});
}

void cpu_stream::graph(const command_info& info, const graph_command& command) {
    const auto& program = static_cast<const detail::replay_program&>(*command.program);
    push({graph_record{program.list(), command.owner}, detail::outcome_ref(info.outcome)});
}

ticket cpu_stream::order_after(stream_interpreter& other, ticket upto) {
    push({wait_record{&static_cast<cpu_stream&>(other), upto}});
    return upto;
}

std::unique_ptr<timed_mark> cpu_stream::mark() {
    auto mark = std::make_shared<cpu_mark>();
    push({mark_record{mark}});
    return std::make_unique<cpu_timed_mark>(std::move(mark));
}

bool cpu_stream::park_unless_passed(const wait_record& wait) {
    if (wait.other->passed() >= wait.upto) return true;
    {
        // Set before parking: if this stream becomes more urgent from here on, raise_urgency() passes that on; if it
        // did before, its urgency already shows it.
        const std::lock_guard lock(mutex_);
        waits_for_ = wait.other;
    }
    return wait.other->is_passed_or_park(*this, wait.upto);
}

bool cpu_stream::is_passed_or_park(cpu_stream& who, ticket upto) {
    int urgency = 0;
    {
        const std::lock_guard lock(mutex_);
        if (passed_.load(std::memory_order_relaxed) >= upto) return true;
        who.parked_until_ = upto;
        who.next_parked_ = std::exchange(parked_, &who);
        urgency = who.place_.urgency();
    }  // from here on `who` may continue
    raise_urgency(urgency);
    return false;
}

void cpu_stream::raise_urgency(int urgency) noexcept {
    for (cpu_stream* each = this; each != nullptr;) {
        cpu_stream* next = nullptr;
        {
            const std::lock_guard lock(each->mutex_);
            if (each->place_.urgency() <= urgency) return;
            each->place_.set_urgency(urgency);
            next = each->waits_for_;
        }
        each->workers_.raise_urgency(each->place_);
        each = next;
    }
}

// Lowers the urgency to that of the most urgent stream parked here, or to the stream's own priority.
void cpu_stream::restore_urgency() noexcept {
    int urgency = priority_;
    for (const cpu_stream* each = parked_; each != nullptr; each = each->next_parked_)
        urgency = std::min(urgency, each->place_.urgency());
    place_.set_urgency(urgency);
}

bool cpu_stream::change(const stream_options& options) noexcept {
    const std::lock_guard lock(mutex_);
    priority_ = options.priority;
    restore_urgency();
    return true;
}

void cpu_stream::trim() noexcept {
    const std::lock_guard lock(mutex_);
    queue_.trim();
}

void cpu_stream::perform(const action& what) const {
    if (const auto* copy = std::get_if<copy_command>(&what)) {
        copy_on_host(*copy);
    } else if (const auto* fill = std::get_if<fill_command>(&what)) {
        if (fill->bytes != 0) std::memset(fill->destination, fill->value, fill->bytes);
    } else if (const auto* launch = std::get_if<launch_record>(&what)) {
        detail::run_kernel(launch->function, launch->closure.get(), launch->name, owner_.owner(), launch->location);
    } else if (const auto* library = std::get_if<library_record>(&what)) {
        library->call(native(), library->closure.get());
    } else if (const auto* host = std::get_if<host_record>(&what)) {
        host->call();
    } else if (const auto* graph = std::get_if<graph_record>(&what)) {
        if (std::exception_ptr failure = graph->list->run(native())) std::rethrow_exception(std::move(failure));
    }
}

// A command that depends on a failed command is not run. Only host calls, library calls, kernels that check their
// bounds and graphs that contain them can fail themselves.
void cpu_stream::perform(record& command) const noexcept {
    if (!command.outcome) return perform(command.what);
    const auto* const graph = std::get_if<graph_record>(&command.what);
    const auto* const launch = std::get_if<launch_record>(&command.what);
    const bool may_fail =
        std::holds_alternative<library_record>(command.what) || (launch != nullptr && launch->may_fail) ||
        std::holds_alternative<host_record>(command.what) || (graph != nullptr && graph->list->may_fail);
    // A command that may fail has its own outcome and settles it; otherwise the outcome is that of the command that it
    // depends on.
    std::exception_ptr failure = may_fail ? command.outcome->inherited() : command.outcome->failure();
    try {
        if (!failure) perform(command.what);
    } catch (...) {
        failure = std::current_exception();
    }
    if (may_fail) {
        command.what = {};  // destroy what the call owned before waiters see the outcome
        command.outcome->settle(std::move(failure));
    }
}

bool cpu_stream::execute(record& next) {
    if (const auto* wait = std::get_if<wait_record>(&next.what)) return park_unless_passed(*wait);
    if (const auto* mark = std::get_if<mark_record>(&next.what)) {
        mark->mark->stamp();
        return true;
    }
    ++running_;
    perform(next);
    return true;
}

// Removes the streams that may continue, and returns them as a list.
cpu_stream* cpu_stream::take_satisfied(ticket now) {
    cpu_stream* satisfied = nullptr;
    for (cpu_stream** link = &parked_; *link != nullptr;) {
        cpu_stream* const each = *link;
        if (each->parked_until_ > now) {
            link = &each->next_parked_;
            continue;
        }
        *link = each->next_parked_;
        each->next_parked_ = std::exchange(satisfied, each);
    }
    return satisfied;
}

// A mark directly after a command records when the command ended, so it is stamped before any waiter is woken.
void cpu_stream::stamp_end() {
    if (queue_.empty()) return;
    if (const auto* mark = std::get_if<mark_record>(&queue_.front().what)) {
        mark->mark->stamp();
        queue_.pop();
    }
}

// Marks the last command as passed and takes the next one. Once this returns `drained`, another worker may run the
// stream.
cpu_stream::step cpu_stream::advance(bool turn_is_over, record& next, cpu_stream*& satisfied) {
    const std::lock_guard lock(mutex_);
    waits_for_ = nullptr;
    if (running_ > passed_.load(std::memory_order_relaxed)) {
        stamp_end();
        passed_.store(running_, std::memory_order_release);
        if (parked_ != nullptr) satisfied = take_satisfied(running_);
        if (place_.urgency() != priority_) restore_urgency();
        if (host_waiters_ != 0) host_wake_.notify_all();
    }
    if (queue_.empty()) {
        scheduled_ = false;
        return step::drained;
    }
    if (turn_is_over) return step::yield_worker;
    next = queue_.pop();
    return step::go_on;
}

// A more urgent stream ends it after the command that has begun.
class cpu_stream::turn_on_worker {
public:
    explicit turn_on_worker(const worker_pool& on) noexcept : on_(on) {}

    void next() noexcept { ++commands_; }
    bool is_over(const worker_pool::place& of) noexcept {
        if (commands_ >= turn_commands) return true;
        if (commands_ == 0 || !on_.needs_thread()) return false;
        if (on_.is_urgent_ready(of)) return true;
        const std::uint64_t now = current_tick();
        if (begin_ == 0) begin_ = now;
        return now - begin_ >= turn_ticks;
    }

private:
    const worker_pool& on_;
    int commands_ = 0;
    std::uint64_t begin_ = 0;  // of the time that others wait; 0: none waits
};

void cpu_stream::run(ticket upto) {
    for (turn_on_worker turn(workers_);; turn.next()) {
        record next;
        cpu_stream* satisfied = nullptr;
        const ticket passing = running_;
        const bool is_over = upto != 0 ? running_ >= upto : turn.is_over(place_);
        const step what = advance(is_over, next, satisfied);
        while (satisfied != nullptr) {
            cpu_stream* const each = satisfied;
            satisfied = each->next_parked_;         // read before it runs and perhaps parks again
            each->workers_.schedule(each->place_);  // perhaps the pool of another device
        }
        owner_.release(passing);
        if (what == step::drained) return;
        if (what == step::yield_worker) return workers_.schedule(place_);
        if (!execute(next)) return;  // parked: the other stream schedules us again
    }
}

// Runs the stream on the calling thread, unless another thread runs it or it is parked.
bool cpu_stream::run_here(ticket upto) {
    if (!workers_.take(place_)) return false;
    const detail::guards_aside aside;
    const worker_pool::helper helper(workers_);
    run(upto);
    return true;
}

// Runs what can be run here of the commands up to the ticket, and of those in other streams for which they wait.
void cpu_stream::help(ticket upto) {
    cpu_stream* at = this;
    for (ticket limit = upto; passed() < upto;) {
        if (at->passed() >= limit) {  // what this stream is parked for is complete: it is ready again, or runs
            at = this;
            limit = upto;
        }
        if (at->run_here(limit)) continue;
        cpu_stream* other = nullptr;
        {
            const std::lock_guard lock(at->mutex_);
            other = at->waits_for_;
        }
        if (other == nullptr) return;
        const std::lock_guard lock(other->mutex_);
        const cpu_stream* parked = other->parked_;
        while (parked != nullptr && parked != at) parked = parked->next_parked_;
        if (parked == nullptr) return;  // about to park, or to continue: another thread does that
        limit = at->parked_until_;
        at = other;
    }
}

std::exception_ptr cpu_stream::run_at_once(const detail::replay_list& list) {
    const worker_pool::helper helper(workers_);
    return list.run(native());
}

void cpu_stream::wait(ticket upto, wait_mode mode) {
    if (detail::may_help()) help(upto);
    for (int look = 0; mode != wait_mode::block && passed() < upto; ++look) {
        // A thread that only looks would keep the worker from a core where there are few.
        if (mode == wait_mode::yield || look >= looks_before_yield) std::this_thread::yield();
    }
    if (passed() >= upto) return;
    std::unique_lock lock(mutex_);
    ++host_waiters_;
    host_wake_.wait(lock, [&] { return passed() >= upto; });
    --host_waiters_;
}

}  // namespace sluice::cpu
