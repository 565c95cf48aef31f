// SPDX-License-Identifier: Apache-2.0
#include "sluice/sim/interleaving.hpp"

#include <exception>
#include <memory>
#include <stdexcept>

#include "sim/fiber.hpp"
#include "sim/schedule.hpp"
#include "sim/weak_memory.hpp"

namespace sluice::sim {
namespace {

class explorer;
thread_local explorer* active = nullptr;  // while a schedule runs on this thread

struct simulated_thread {
    std::function<void()> body;
    const detail::predicate_ref* blocked_until = nullptr;
    bool ended = true;
    bool idle = false;  // has started, and waits for its next body
    std::unique_ptr<fiber> stack;
};

// Runs schedules, one after the other, on the same fibers. After a failed schedule it may only be destroyed.
class explorer {
public:
    explorer() = default;
    explorer(const explorer&) = delete;
    explorer& operator=(const explorer&) = delete;
    ~explorer() {
        // The idle fibers leave for ever, so that the sanitizers free what they keep for them.
        stopping_ = true;
        for (current_ = 0; current_ < threads_.size(); ++current_) {
            if (threads_[current_]->idle) home_.switch_to(*threads_[current_]->stack);
        }
    }

    // Null when the schedule succeeded.
    std::optional<interleave_failure> run(scenario what, std::uint64_t seed, std::uint64_t max_steps) {
        begin(std::move(what.threads), seed, max_steps);
        if (!threads_.empty()) {
            active = this;
            current_ = no_thread;
            go_on();
            active = nullptr;
        }
        if (!failure_ && what.finally) finish(what.finally);
        if (!failure_) return std::nullopt;
        return interleave_failure{seed, *failure_, order()};
    }

    std::uint64_t steps() const { return order_.size(); }

    void scheduling_point() noexcept {
        if (!choosing_) go_on();
    }

    // The thread continues with what it read when the predicate became true: the last values.
    void wait_until(const detail::predicate_ref& predicate) noexcept {
        threads_[current_]->blocked_until = &predicate;
        go_on();
        reads_last_ = choosing_ = true;
        predicate.call(predicate.object);
        reads_last_ = choosing_ = false;
    }

    const void* read_atomic(detail::location& from, const void* now, std::size_t bytes,
                            std::memory_order order) noexcept {
        if (choosing_ && !reads_last_) return nullptr;
        const std::size_t choices = memory_.choices(current_, from, now, bytes, order);
        const std::size_t age = reads_last_ ? 0 : schedule_->age(choices);
        const void* const found = memory_.read(current_, from, age, order);
        return age == 0 ? nullptr : found;
    }
    void read_last(detail::location& from, const void* now, std::size_t bytes, std::memory_order order) noexcept {
        memory_.choices(current_, from, now, bytes, order);
        memory_.read(current_, from, 0, order);
    }
    void write_atomic(detail::location& to, const void* now, std::size_t bytes, std::memory_order order,
                      bool is_update) noexcept {
        memory_.write(current_, to, now, bytes, order, is_update);
    }
    void read_plain(detail::location& from) noexcept {
        if (!choosing_ && !memory_.read_plain(current_, from)) fail("a data race: a read next to a write");
    }
    void write_plain(detail::location& to) noexcept {
        if (!memory_.write_plain(current_, to)) fail("a data race: a write next to another access");
    }

    [[noreturn]] void fail(std::string message) noexcept {
        failure_ = std::move(message);
        fiber& here = *threads_[current_]->stack;
        here.switch_to(home_);
        std::terminate();  // abandoned: never resumed
    }

private:
    static constexpr std::size_t no_thread = schedule::max_threads;

    void begin(std::vector<std::function<void()>> bodies, std::uint64_t seed, std::uint64_t max_steps) {
        if (bodies.size() > schedule::max_threads) throw std::invalid_argument("interleave: more than 64 threads");
        while (threads_.size() < bodies.size()) {
            threads_.push_back(std::make_unique<simulated_thread>());
            threads_.back()->stack = std::make_unique<fiber>(&explorer::live, this);
        }
        unended_ = 0;
        for (std::size_t i = 0; i < bodies.size(); ++i) {
            threads_[i]->body = std::move(bodies[i]);
            threads_[i]->ended = false;
            unended_ |= std::uint64_t{1} << i;
        }
        schedule_.emplace(seed, bodies.size());
        memory_.begin(bodies.size());
        max_steps_ = max_steps;
        order_.clear();
    }

    // The function of each fiber: runs its thread's body in each schedule.
    static void live(void* self) noexcept {
        explorer& run = *static_cast<explorer*>(self);
        simulated_thread& me = *run.threads_[run.current_];
        while (!run.stopping_) {
            me.idle = false;
            if (std::optional<std::string> thrown = exception_text_of(me.body)) run.fail(*std::move(thrown));
            me.body = nullptr;
            me.ended = true;
            me.idle = true;
            run.unended_ &= ~(std::uint64_t{1} << run.current_);
            run.go_on();
        }
        me.idle = false;
        me.stack->switch_to(run.home_, fiber::return_here::never);
    }

    static std::optional<std::string> exception_text_of(const std::function<void()>& body) {
        try {
            body();
            return std::nullopt;
        } catch (const std::exception& error) {
            return error.what();
        } catch (...) {
            return "an exception was thrown that is not a std::exception";
        }
    }

    void finish(const std::function<void()>& finally) {
        if (std::optional<std::string> thrown = exception_text_of(finally)) failure_ = "in the end: " + *thrown;
    }

    // Continues the thread that the schedule selects. Called on a thread, or on home_ to start. Returns when the
    // calling thread is selected again; on home_, when all threads have ended or one has failed.
    void go_on() noexcept {
        fiber& here = current_ == no_thread ? home_ : *threads_[current_]->stack;
        if (unended_ == 0) return here.switch_to(home_);
        const std::uint64_t runnable = find_runnable();
        if (runnable == 0) return give_up(here, "deadlock: every thread that has not ended is blocked");
        if (order_.size() >= max_steps_) {
            return give_up(here, "no end after " + std::to_string(max_steps_) + " steps");
        }
        const std::size_t next = schedule_->next(runnable, current_);
        order_.push_back(static_cast<std::uint8_t>(next));
        threads_[next]->blocked_until = nullptr;
        if (next == current_) return;
        current_ = next;
        here.switch_to(*threads_[next]->stack);
    }

    void give_up(fiber& here, std::string message) noexcept {
        failure_ = std::move(message);
        if (&here != &home_) here.switch_to(home_);
    }

    std::uint64_t find_runnable() noexcept {
        choosing_ = true;  // the predicates' own loads are not steps
        std::uint64_t runnable = unended_;
        for (std::size_t i = 0; i < threads_.size(); ++i) {
            const detail::predicate_ref* const until = threads_[i]->blocked_until;
            if (until != nullptr && !until->call(until->object)) runnable &= ~(std::uint64_t{1} << i);
        }
        choosing_ = false;
        return runnable;
    }

    std::string order() const {
        std::string text;
        for (std::size_t i = 0; i < order_.size();) {
            std::size_t end = i;
            while (end < order_.size() && order_[end] == order_[i]) ++end;
            if (!text.empty()) text += ' ';
            text += std::to_string(order_[i]) + 'x' + std::to_string(end - i);
            i = end;
        }
        if (memory_.old_reads() != 0) text += "; older values read: " + std::to_string(memory_.old_reads());
        return text;
    }

    fiber home_;
    std::vector<std::unique_ptr<simulated_thread>> threads_;
    std::size_t current_ = no_thread;
    std::uint64_t unended_ = 0;  // one bit per thread
    std::optional<schedule> schedule_;
    weak_memory memory_;
    std::uint64_t max_steps_ = 0;
    std::vector<std::uint8_t> order_;  // the thread that ran at each step
    std::optional<std::string> failure_;
    bool choosing_ = false;    // evaluates predicates: their loads are no steps, and read the last values
    bool reads_last_ = false;  // evaluates the predicate of a thread that continues
    bool stopping_ = false;
};

}  // namespace

interleave_result interleave(const std::function<scenario()>& make, interleave_options options) {
    interleave_result result;
    explorer run;
    while (result.schedules < options.schedules && !result.failure) {
        result.failure = run.run(make(), options.seed + result.schedules, options.max_steps);
        ++result.schedules;
        result.steps += run.steps();
    }
    return result;
}

void scheduling_point() noexcept {
    if (active != nullptr) active->scheduling_point();
}

const void* detail::read_atomic(location& from, const void* now, std::size_t bytes, std::memory_order order) noexcept {
    return active != nullptr ? active->read_atomic(from, now, bytes, order) : nullptr;
}

void detail::read_last(location& from, const void* now, std::size_t bytes, std::memory_order order) noexcept {
    if (active != nullptr) active->read_last(from, now, bytes, order);
}

void detail::write_atomic(location& to, const void* now, std::size_t bytes, std::memory_order order,
                          bool is_update) noexcept {
    if (active != nullptr) active->write_atomic(to, now, bytes, order, is_update);
}

void detail::read_plain(location& from) noexcept {
    if (active != nullptr) active->read_plain(from);
}

void detail::write_plain(location& to) noexcept {
    if (active != nullptr) active->write_plain(to);
}

void detail::wait_until(const predicate_ref& predicate) {
    if (active != nullptr) return active->wait_until(predicate);
    if (!predicate.call(predicate.object))
        throw std::logic_error(
            "sim::wait_until: the predicate is false, and outside a simulated thread no other thread can change it");
}

void check(bool holds, std::string_view message) {
    if (holds) return;
    if (active != nullptr) active->fail(std::string(message));
    throw std::runtime_error(std::string(message));
}

}  // namespace sluice::sim
