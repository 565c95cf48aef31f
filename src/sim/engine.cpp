#include "sim/engine.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::sim::detail {

void engine::begin(std::uint64_t seed) {
    random_ = random(seed);
    in_order_ = seed == 0;
    schedule_ = schedule(seed, max_threads - 1);  // streams may yet come
    is_watched = draw(2) == 0;
    waits_widely = draw(2) == 0;
    eager_of_8_ = draw(2) == 0 ? 0 : draw(8);
    service_of_8_ = draw(8);
    if (in_order_) is_watched = waits_widely = false;
    if (in_order_) eager_of_8_ = service_of_8_ = 0;
    // As floating-point numbers: from 12 to 10^9.
    checks_.garbage = 0x41 + draw(14);
    current_ = max_threads;
    submissions = 0;
    ran_ = breaks_at_ = 0;
    asked_in_vain_ = 0;
    host_time = latest_end_ = 0;
    began_ = sluice::detail::alarm::clock::now();
    waits_are_void = false;
    is_short_of_memory = false;
    checks_.begin(seed);
    for (sim_stream* each : streams_) {
        if (each != nullptr) each->begin();
    }
    arena_.clear();
    if (planted != nullptr) planted->schedule_begins();
}

thread_index engine::add(sim_stream& one) {
    if (streams_.size() + 1 == max_threads) {
        throw error(errc::unsupported, "a simulator has room for " + std::to_string(max_threads - 1) + " streams");
    }
    streams_.push_back(&one);
    return static_cast<thread_index>(streams_.size());
}

bool engine::step(locks are) {
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
    asked_in_vain_ = 0;
    if (++ran_ == breaks_at_) {
        break_down(*streams_[current_]);
        return true;
    }
    latest_end_ = std::max(latest_end_, streams_[current_]->run_first());
    ++commands;
    return true;
}

bool engine::serve() {
    if (service == nullptr || is_serving_ || is_short_of_memory) return false;
    is_serving_ = true;
    const bool any = service->run_pending();
    is_serving_ = false;
    return any;
}

void engine::break_down(sim_stream& running) {
    const actor at = running.describe_next();
    broken_ = &running.owner().owner();
    cause_ = std::make_exception_ptr(
        device_error(errc::device_failed, "broken down by the simulator, at " + to_string(at), {"", broken_->name()}));
    for (sim_stream* each : streams_) {
        if (each != nullptr && is_broken(each->owner().owner())) each->never_ends();
    }
}

void engine::notice_breakdown() noexcept {
    // Once the search is over everybody is told, whatever was planted.
    if (planted != nullptr && !waits_are_void && !planted->shows_breakdowns()) return;
    if (!broken_->is_poisoned()) return broken_->poison(cause_);
    // Others find out as well, and blame something else: the first cause is the one that counts.
    if (!std::exchange(is_blamed_again_, true))
        broken_->poison(std::make_exception_ptr(device_error(errc::device_failed, "a later cause")));
}

// A point of time that has passed, has; one to come lies as far ahead as it did when the schedule began.
time_point engine::due(const sluice::detail::deadline& until) const noexcept {
    if (until.from_now()) return time() + *until.from_now();
    return until.at() <= sluice::detail::alarm::clock::now() ? std::min(until.at(), time()) : until.at();
}

bool engine::run_until(const std::function<bool()>& is_over, time_point deadline) {
    if (checks_.is_running()) throw error(errc::invalid_argument, "a host call waits for its device");
    is_short_of_memory = false;  // whoever was has been told
    asked();
    if (draw(2) == 0 && serve()) settle();  // also when there is no time to wait
    if (run(is_over, deadline)) return true;
    if (deadline != time_point::max()) {
        host_time = std::max(host_time, static_cast<nanoseconds>((deadline - began_).count()));
        return false;
    }
    const std::size_t found_before = checks_.findings().size();
    finish();  // the stuck are named
    if (is_over()) return true;
    if (checks_.findings().size() == found_before)
        checks_.report(fault::lost_wake_up, "nothing can run any more, and the host still waits for something");
    throw std::runtime_error("the host waits for what cannot come: " + to_string(checks_.findings().back()));
}

void engine::ring() noexcept {
    if (service != nullptr) service->advance_to(time());
}

// Nothing else can happen: time goes on to the next alarm, if that comes before the deadline. Whether it did.
bool engine::pass_time(time_point deadline) noexcept {
    if (service == nullptr) return false;
    const time_point next = service->next_due();
    if (next == time_point::max() || next > deadline) return false;
    host_time = std::max(host_time, static_cast<nanoseconds>((next - began_).count()));
    ring();
    return true;
}

void engine::submitted() {
    asked_in_vain_ = 0;
    if (eager_of_8_ == 0 || checks_.is_running() || draw(8) >= eager_of_8_) return;
    for (std::uint32_t left = 1 + draw(3); left > 0 && step(locks::held); --left) {
    }
}

void engine::poll() noexcept {
    if (is_serving_ || checks_.is_running()) return;
    if (eager_of_8_ != 0 && draw(8) < eager_of_8_) step(locks::held);
    asked();
}

void engine::bury(remains&& dead) {
    if (dead.call || dead.owner) dead_.push_back(std::move(dead));
}

void engine::host_sees(const vector_clock& clock, nanoseconds when) noexcept {
    checks_.host_learns(clock);
    host_time = std::max(host_time, when);
}

// No lock of the runtime's is held.
void engine::settle() {
    if (is_settling_ || checks_.is_running()) return;
    is_settling_ = true;
    if (broken_ != nullptr && !is_watched) notice_breakdown();
    while (!dead_.empty()) {
        std::vector<remains> dead;
        dead.swap(dead_);
    }
    // By number: who is told may make new streams.
    for (std::size_t i = 0; i < streams_.size() && !is_watched; ++i) {
        if (streams_[i] != nullptr && streams_[i]->has_untold()) streams_[i]->tell();
    }
    is_settling_ = false;
}

void engine::finish() {
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
        waits_are_void = true;
        run(never);
        break;
    }
    for (sim_stream* each : streams_) {
        if (each == nullptr) continue;
        each->catch_up();
        if (each->owner().has_waiters()) {
            actor last = each->describe(0);
            std::string message =
                "everything has run, and who waits for a command up to " + to_string(last) + " was not told";
            checks_.report(fault::lost_wake_up, std::move(message), std::move(last));
        }
        each->owner().release(each->executed());
    }
    serve();
    settle();
}

void engine::give_up(const std::string& awaited) {
    report_stuck("the host waits for " + awaited + ", and no stream");
    waits_are_void = true;
    throw error(errc::device_failed, "the simulated streams wait for each other");
}

void engine::report_stuck(const std::string& who) {
    std::string message = who + " can go on";
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

actor engine::describe(thread_index thread, moment when) const {
    if (thread == host_thread) return {.name = "the host"};
    return streams_[thread - 1]->describe(when);
}

}  // namespace sluice::sim::detail
