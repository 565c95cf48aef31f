// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_machine.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::sim::detail {

void sim_machine::begin(std::uint64_t seed) {
    random_ = random(seed);
    in_order_ = seed == 0;
    schedule_ = schedule(seed, max_threads - 1);  // more streams may be added
    is_watched = draw(2) == 0;
    waits_cover_all_issued = draw(2) == 0;
    eager_eighths_ = draw(2) == 0 ? 0 : draw(8);
    service_eighths_ = draw(8);
    if (in_order_) is_watched = waits_cover_all_issued = false;
    if (in_order_) eager_eighths_ = service_eighths_ = 0;
    // Interpreted as floating-point numbers: from 12 to 10^9.
    checks_.garbage = 0x41 + draw(14);
    current_ = max_threads;
    submissions = 0;
    ran_ = breaks_at_ = 0;
    idle_queries_ = 0;
    host_time = latest_end_ = 0;
    began_ = sluice::detail::timer::clock::now();
    ignore_waits = false;
    is_short_of_memory = false;
    checks_.begin(seed);
    for (sim_stream* each : streams_) {
        if (each != nullptr) each->begin();
    }
    arena_.clear();
    if (planted != nullptr) planted->schedule_begins();
}

thread_index sim_machine::add(sim_stream& one) {
    if (streams_.size() + 1 == max_threads) {
        throw error(errc::unsupported, "a simulator has room for " + std::to_string(max_threads - 1) + " streams");
    }
    streams_.push_back(&one);
    return static_cast<thread_index>(streams_.size());
}

bool sim_machine::step(locks are) {
    std::uint64_t ready = 0;
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        if (streams_[i] == nullptr || !streams_[i]->make_ready()) continue;
        if (are == locks::held && streams_[i]->is_before_host_call()) continue;
        if (ready == 0 || streams_[i]->next_number() < streams_[oldest]->next_number()) oldest = i;
        ready |= std::uint64_t{1} << i;
    }
    if (ready == 0) return false;
    current_ = in_order_ ? oldest : schedule_.next(ready, current_);
    idle_queries_ = 0;
    if (threads != nullptr) threads->something_ran();
    if (++ran_ == breaks_at_) {
        break_down(*streams_[current_]);
        return true;
    }
    latest_end_ = std::max(latest_end_, streams_[current_]->run_first());
    ++commands;
    return true;
}

bool sim_machine::serve() {
    if (service == nullptr || is_serving_ || is_short_of_memory) return false;
    is_serving_ = true;
    const bool any = service->run_pending();
    is_serving_ = false;
    is_short_of_memory = false;  // what was short of memory in there has its error
    return any;
}

void sim_machine::break_down(sim_stream& running) {
    const actor at = running.describe_next();
    broken_ = &running.owner().owner();
    cause_ = std::make_exception_ptr(
        device_error(errc::device_failed, "broken down by the simulator, at " + to_string(at), {"", broken_->name()}));
    for (sim_stream* each : streams_) {
        if (each != nullptr && is_broken(each->owner().owner())) each->mark_unfinished();
    }
}

void sim_machine::notice_breakdown() noexcept {
    // Once the search for faults has ended, every waiter gets the error, whatever was planted.
    if (planted != nullptr && !ignore_waits && !planted->reports_breakdowns()) return;
    if (!broken_->is_poisoned()) return broken_->poison(cause_);
    // Report a second cause as well, to check that the first cause is kept.
    if (!std::exchange(second_cause_reported_, true))
        broken_->poison(std::make_exception_ptr(device_error(errc::device_failed, "a later cause")));
}

// A point in time that has passed counts as passed; a later one is as far ahead as it was when the schedule began.
time_point sim_machine::due(const sluice::detail::deadline& until) const noexcept {
    if (until.from_now()) return time() + *until.from_now();
    return until.at() <= sluice::detail::timer::clock::now() ? std::min(until.at(), time()) : until.at();
}

void sim_machine::begin_wait() {
    if (checks_.is_running()) throw error(errc::invalid_argument, "a host call waits for its device");
    is_short_of_memory = false;  // the thread that was short of memory has got its error
    asked();
    if (draw(2) == 0 && serve()) settle();  // also with no time to wait
}

bool sim_machine::run_what_can(const std::function<bool()>& is_over) {
    begin_wait();
    return run(is_over);
}

void sim_machine::task_driver::give_up() {
    static_cast<void>(of_.run_until([] { return false; }, time_point::max()));
    std::abort();  // it throws, since nothing can end it
}

bool sim_machine::run_until(const std::function<bool()>& is_over, time_point deadline) {
    begin_wait();
    if (run(is_over, deadline)) return true;
    if (deadline != time_point::max()) {
        host_time = std::max(host_time, static_cast<nanoseconds>((deadline - began_).count()));
        return false;
    }
    const std::size_t found_before = checks_.findings().size();
    finish();  // reports what is stuck
    if (is_over()) return true;
    if (checks_.findings().size() == found_before)
        checks_.report(fault::lost_wake_up, "nothing more can run, and the host still waits");
    throw std::runtime_error("the host waits for something that can never happen: " +
                             to_string(checks_.findings().back()));
}

void sim_machine::ring() noexcept {
    if (service != nullptr) service->advance_to(time());
}

// Nothing else can happen: advances time to the next timer if that is before the deadline. Returns whether it did.
bool sim_machine::pass_time(time_point deadline) noexcept {
    if (service == nullptr) return false;
    const time_point next = service->next_due();
    if (next == time_point::max() || next > deadline) return false;
    host_time = std::max(host_time, static_cast<nanoseconds>((next - began_).count()));
    ring();
    return true;
}

void sim_machine::submitted() {
    idle_queries_ = 0;
    if (eager_eighths_ == 0 || checks_.is_running() || draw(8) >= eager_eighths_) return;
    for (std::uint32_t left = 1 + draw(3); left > 0 && step(locks::held); --left) {
    }
}

void sim_machine::poll() noexcept {
    if (is_serving_ || checks_.is_running()) return;
    if (eager_eighths_ != 0 && draw(8) < eager_eighths_) step(locks::held);
    asked();
}

void sim_machine::retire(remains&& dead) {
    if (dead.call || dead.owner) dead_.push_back(std::move(dead));
}

void sim_machine::host_sees(const vector_clock& clock, nanoseconds when) noexcept {
    checks_.host_observes(clock);
    host_time = std::max(host_time, when);
}

void sim_machine::memory_freed(const void* data) {
    for (block* const each : blocks_) {
        if (each->foreign == nullptr || !each->is_live || !each->overlaps(data, 1)) continue;
        checks_.freed(*each);
        each->is_live = each->is_lent = false;
    }
}

// Called without locks of the runtime.
void sim_machine::settle() {
    if (is_settling_ || checks_.is_running()) return;
    is_settling_ = true;
    if (broken_ != nullptr && !is_watched) notice_breakdown();
    while (!dead_.empty()) {
        std::vector<remains> dead;
        dead.swap(dead_);
    }
    // By index, because a woken waiter may create new streams.
    for (std::size_t i = 0; i < streams_.size() && !is_watched; ++i) {
        if (streams_[i] != nullptr && streams_[i]->has_unnotified()) streams_[i]->tell();
    }
    is_settling_ = false;
}

void sim_machine::finish() {
    const auto never = [] { return false; };
    is_short_of_memory = false;
    run(never);
    settle();
    if (broken_ != nullptr) {
        notice_breakdown();
        run(never);
    }
    for (const sim_stream* each : streams_) {
        if (each == nullptr || each->is_idle()) continue;
        report_stuck("no stream");
        ignore_waits = true;
        run(never);
        break;
    }
    for (sim_stream* each : streams_) {
        if (each == nullptr) continue;
        each->catch_up();
        if (each->owner().has_waiters()) {
            actor last = each->describe(0);
            std::string message =
                "everything has run, and a waiter for commands up to " + to_string(last) + " was not woken";
            checks_.report(fault::lost_wake_up, std::move(message), std::move(last));
        }
        each->owner().release(each->executed());
    }
    serve();
    settle();
}

void sim_machine::give_up(const std::string& awaited) {
    report_stuck("the host waits for " + awaited + ", and no stream");
    ignore_waits = true;
    throw error(errc::device_failed, "the simulated streams wait for each other");
}

void sim_machine::report_stuck(const std::string& who) {
    std::string message = who + " can continue";
    actor first;
    actor second;
    for (const sim_stream* each : streams_) {
        actor waiter;
        actor awaited;
        if (each == nullptr || each->is_idle() || !each->is_stuck(waiter, awaited)) continue;
        message += "; " + to_string(waiter) + " waits for " + to_string(awaited);
        if (first.name.empty()) {
            first = std::move(waiter);
            second = std::move(awaited);
        }
    }
    checks_.report(fault::deadlock, std::move(message), std::move(first), std::move(second));
}

actor sim_machine::describe(thread_index thread, moment when) const {
    if (thread == host_thread) return {.name = "the host"};
    return streams_[thread - 1]->describe(when);
}

}  // namespace sluice::sim::detail
