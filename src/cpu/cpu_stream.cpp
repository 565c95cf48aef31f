#include "cpu/cpu_stream.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "cpu/cpu_mark.hpp"

namespace sluice::cpu {
namespace {

// After so many commands a stream goes to the back of the line.
constexpr int turn_length = 64;

}  // namespace

void cpu_stream::push(record next) {
    {
        const std::lock_guard lock(mutex_);
        queue_.push(std::move(next));
        if (scheduled_) return;
        scheduled_ = true;
    }
    workers_.schedule(*this);
}

void cpu_stream::copy(const command_info&, const copy_command& command) { push(command); }

void cpu_stream::fill(const command_info&, const fill_command& command) { push(command); }

void cpu_stream::launch(const command_info&, const launch_command& command) {
    push(launch_record{command.host_function, {command.closure, command.closure_bytes}});
}

std::exception_ptr cpu_stream::library_call(const command_info&, const library_command& command) {
    push(library_record{command.call, {command.closure, command.closure_bytes}, std::this_thread::get_id()});
    return {};
}

void cpu_stream::host_call(const command_info&, host_command command) {
    push(host_record{std::move(command.call), std::this_thread::get_id()});
}

ticket cpu_stream::wait_for(stream_interpreter& other, ticket upto) {
    push(wait_record{&static_cast<cpu_stream&>(other), upto});
    return upto;
}

std::unique_ptr<timed_mark> cpu_stream::mark() {
    auto mark = std::make_shared<cpu_mark>();
    push(mark_record{mark});
    return std::make_unique<cpu_timed_mark>(std::move(mark));
}

bool cpu_stream::is_passed_or_park(cpu_stream& who, ticket upto) {
    const std::lock_guard lock(mutex_);
    if (passed_.load(std::memory_order_relaxed) >= upto) return true;
    waiters_.push_back({&who, upto});
    return false;
}

template <typename Command>
void cpu_stream::perform_noting_failure(const Command& command) {
    try {
        perform(command);
    } catch (...) {
        failures_.note(running_, command.submitter, std::current_exception());
    }
}

bool cpu_stream::execute(record& next) {
    if (const auto* wait = std::get_if<wait_record>(&next)) return wait->other->is_passed_or_park(*this, wait->upto);
    if (const auto* mark = std::get_if<mark_record>(&next)) {
        mark->mark->stamp();
        return true;
    }
    ++running_;
    if (const auto* copy = std::get_if<copy_command>(&next)) {
        if (copy->bytes != 0) std::memmove(copy->destination, copy->source, copy->bytes);
    } else if (const auto* fill = std::get_if<fill_command>(&next)) {
        if (fill->bytes != 0) std::memset(fill->destination, fill->value, fill->bytes);
    } else if (const auto* launch = std::get_if<launch_record>(&next)) {
        perform(*launch);
    } else if (const auto* library = std::get_if<library_record>(&next)) {
        perform_noting_failure(*library);
    } else if (const auto* host = std::get_if<host_record>(&next)) {
        perform_noting_failure(*host);
    }
    return true;
}

void cpu_stream::take_satisfied(ticket now, std::vector<waiter>& satisfied) {
    const auto first = std::partition(waiters_.begin(), waiters_.end(), [&](const waiter& w) { return w.upto > now; });
    satisfied.assign(first, waiters_.end());
    waiters_.erase(first, waiters_.end());
}

void cpu_stream::wake(std::vector<waiter>& satisfied) {
    for (const waiter& each : satisfied) workers_.schedule(*each.who);
    satisfied.clear();
}

// Passes the command that ran last and takes the next one. Once this says `drained`, another worker may run
// the stream.
cpu_stream::step cpu_stream::advance(bool turn_is_over, record& next, std::vector<waiter>& satisfied) {
    const std::lock_guard lock(mutex_);
    if (running_ > passed_.load(std::memory_order_relaxed)) {
        passed_.store(running_, std::memory_order_release);
        if (!waiters_.empty()) take_satisfied(running_, satisfied);
        if (host_waiters_ != 0) host_wake_.notify_all();
    }
    if (queue_.empty()) {
        scheduled_ = false;
        return step::drained;
    }
    if (turn_is_over) return step::turn_over;
    next = queue_.pop();
    return step::go_on;
}

void cpu_stream::run() {
    std::vector<waiter> satisfied;
    for (int turn = 0;; ++turn) {
        record next;
        const step what = advance(turn >= turn_length, next, satisfied);
        wake(satisfied);
        if (what == step::drained) return;
        if (what == step::turn_over) return workers_.schedule(*this);
        if (!execute(next)) return;  // parked: the other stream schedules us again
    }
}

void cpu_stream::await(ticket upto, wait_mode mode) {
    while (mode != wait_mode::block && passed() < upto) {
        if (mode == wait_mode::yield) std::this_thread::yield();
    }
    if (passed() >= upto) return;
    std::unique_lock lock(mutex_);
    ++host_waiters_;
    host_wake_.wait(lock, [&] { return passed() >= upto; });
    --host_waiters_;
}

}  // namespace sluice::cpu
