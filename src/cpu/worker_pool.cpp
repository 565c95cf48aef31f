// SPDX-License-Identifier: Apache-2.0
#include "cpu/worker_pool.hpp"

#include <algorithm>
#include <utility>

#include "cpu/cpu_stream.hpp"
#include "cpu/current_core.hpp"
#include "runtime/short_wait.hpp"

namespace sluice::cpu {
namespace {

constexpr int looks_before_sleep = 400;  // some 90 µs: between two calls the caller may copy inputs and outputs
constexpr int looks_before_stream = 8;   // some 2 µs
constexpr unsigned most_left_in_vain = 16;
constexpr unsigned streams_between_tries = 64;
constexpr unsigned ticks_before_wake_up = 2;
constexpr unsigned short_teams_of_wake_up = 8;

}  // namespace

worker_pool::worker_pool(std::size_t workers) : workers_(workers), sleepers_(std::make_unique<sleeper[]>(workers)) {
    threads_.reserve(workers);
    try {
        for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this, i] { work(sleepers_[i]); });
    } catch (...) {  // the system provides no more threads: end those already started
        close();
        throw;
    }
}

void worker_pool::schedule(place& ready) noexcept {
    sleeper* one = nullptr;
    {
        const locked lock = lock_soon();
        // A worker that looks for work takes one stream.
        const bool needs_worker = looking_ == 0 || !ready_.empty();
        ready.rank_ = ready.urgency();
        ready.turn_ = ++turns_;
        ready.is_ready_ = true;
        ready_.push(ready);
        note_work();
        if (needs_worker) one = take_sleeper();
    }
    if (one != nullptr) wake(*one);
}

void worker_pool::raise_urgency(place& one) noexcept {
    const std::lock_guard lock(mutex_);
    if (!one.is_ready_ || one.urgency() >= one.rank_) return;
    ready_.remove(one);
    one.rank_ = one.urgency();
    ready_.push(one);
    note_work();
}

void worker_pool::note_work() noexcept {
    first_rank_.store(ready_.empty() ? none_ready : ready_.top()->rank_, std::memory_order_relaxed);
    has_work_.store(has_work(), std::memory_order_relaxed);
}

// Checks for a while before it sleeps: waking a thread costs more than most commands. It keeps the core meanwhile,
// since on a busy machine a thread that yields may wait for milliseconds. One worker fewer than there are looks at
// most: the thread that it could help needs a core too. A stream that becomes ready is left for a moment to the
// thread that made it ready: if that one waits for it, it carries it out itself, and this one can help. After some that
// no thread took, only one of many is left, to see whether that has changed.
void worker_pool::look(locked& lock) noexcept {
    if (looking_ > 1 && looking_ >= workers_) return;
    for (detail::short_wait wait(looks_before_sleep); !has_work() && !is_full() && wait.keeps_core();) {
        const int most_looks = left_in_vain_ < most_left_in_vain ? looks_before_stream : 0;
        lock.unlock();
        int ready_looks = 0;
        for (; wait.keeps_core() && !is_full(); wait()) {
            if (!has_work_.load(std::memory_order_relaxed)) {
                ready_looks = 0;
            } else if (!needs_thread() || ++ready_looks > most_looks) {
                break;
            }
        }
        lock = lock_soon();
        if (ready_looks > most_looks && ++left_in_vain_ == most_left_in_vain + streams_between_tries) {
            left_in_vain_ = most_left_in_vain - 1;
        }
    }
}

void worker_pool::sleep(locked& lock, sleeper& self) noexcept {
    --looking_;
    self.is_woken = false;
    self.next = asleep_;
    asleep_ = &self;
    self.core.store(-1, std::memory_order_relaxed);
    self.wake.wait(lock, [&] { return self.is_woken; });
    self.cores.allow_all();
}

// On another core than that of the calling thread, which has something to do.
void worker_pool::wake(sleeper& one) noexcept {
    one.cores.keep_off(current_core());
    {
        const locked lock = lock_soon();
        one.is_woken = true;
    }
    one.wake.notify_one();
}

// On the core of the thread that shares its work, a helper only delays it. True: work may have come or gone meanwhile.
bool worker_pool::leave_core(int core, core_change& change, locked& lock) noexcept {
    if (core < 0 || core != current_core() || !change.is_due()) return false;
    lock.unlock();
    change.leave(core);
    lock = lock_soon();
    return true;
}

// Looks about once in a millisecond whether another worker has the core of this one. The system may leave both there
// for long, next to a core whose thread sleeps and wakes up all the time, for instance one that takes their results.
// With more workers awake than there are cores, some of them must share one.
void worker_pool::leave_other_worker(sleeper& self, core_change& change) const noexcept {
    if (workers_ == 1 || !change.has_ticked()) return;
    const int core = current_core();
    std::size_t awake = 1, here = 0;
    for (std::size_t i = 0; i < workers_; ++i) {
        const int other = &sleepers_[i] == &self ? -1 : sleepers_[i].core.load(std::memory_order_relaxed);
        awake += other >= 0;
        here += other >= 0 && other == core;
    }
    const bool leaves = here != 0 && awake <= cores_ && change.is_due();
    if (leaves) change.leave(core);
    self.core.store(leaves ? current_core() : core, std::memory_order_relaxed);
}

worker_pool::sleeper* worker_pool::take_sleeper() noexcept {
    sleeper* const taken = asleep_;
    if (taken == nullptr) return nullptr;
    asleep_ = taken->next;
    ++looking_;
    return taken;
}

void worker_pool::work(sleeper& self) {
    const detail::duty_scope duty(detail::thread_duty::runs_commands);
    const detail::part_runner_scope runner(this);
    self.cores.set_thread();
    core_change change;
    locked lock = lock_soon();
    for (;;) {
        ++looking_;
        for (look(lock); !has_work(); look(lock)) sleep(lock, self);
        --looking_;
        if (!ready_.empty()) {
            place& next = *ready_.pop();
            next.is_ready_ = false;
            note_work();
            lock.unlock();
            leave_other_worker(self, change);
            next.of_.run();
            lock = lock_soon();
        } else if (shared_work* const work = work_to_join()) {
            if (!leave_core(work->core, change, lock)) join(*work, lock);
        } else {
            return;
        }
    }
}

// Nothing where as many threads compute as there are workers: one more would take the core of another thread, and all
// that share work with that thread would wait. Parts go before teams, since a team may be that of a part; of several
// teams the latest one goes first, which has the most left.
worker_pool::shared_work* worker_pool::work_to_join() const noexcept {
    if (is_full()) return nullptr;
    shared_work *parts = nullptr, *team = nullptr;
    for (shared_work* each = shared_; each != nullptr; each = each->next_shared) {
        if (each->threads >= each->most_threads) continue;
        if (each->team.take_part == nullptr) {
            parts = each;
        } else if (team == nullptr) {
            team = each;
        }
    }
    return parts != nullptr ? parts : team;
}

void worker_pool::share(shared_work& work, locked& lock, bool wakes) noexcept {
    work.next_shared = shared_;
    shared_ = &work;
    note_work();
    if (wakes) wake_for(work, lock);
}

// A worker that looks for work needs no wake-up; one that is woken for nothing takes time from those that compute. The
// work may be over when this returns.
void worker_pool::wake_for(const shared_work& work, locked& lock) noexcept {
    const std::size_t computing = computing_.load(std::memory_order_relaxed);
    const std::size_t most = std::min(work.most_threads - work.threads, workers_ - std::min(workers_, computing));
    for (std::size_t helpers = looking_; helpers < most; ++helpers) {
        sleeper* const one = take_sleeper();
        if (one == nullptr) return;
        lock.unlock();
        wake(*one);
        lock = lock_soon();
    }
}

// A core that is free at one look may be that of a thread between two calls. It is worth a wake-up where cores are free
// at two looks that are a millisecond or more apart, and at all looks in between.
void worker_pool::wake_helpers() noexcept {
    const std::uint64_t since = free_since_.load(std::memory_order_relaxed);
    if (is_full()) {
        if (since != 0) free_since_.store(0, std::memory_order_relaxed);
        return;
    }
    const std::uint64_t now = current_tick();
    if (since != 0 && now - since < ticks_before_wake_up) return;
    free_since_.store(now, std::memory_order_relaxed);
    if (since == 0) return;
    locked lock = lock_soon();
    if (const shared_work* const work = work_to_join()) wake_for(*work, lock);
}

void worker_pool::stop_sharing(shared_work& work) noexcept {
    for (shared_work** link = &shared_; *link != nullptr; link = &(*link)->next_shared) {
        if (*link != &work) continue;
        *link = work.next_shared;
        break;
    }
    note_work();
}

void worker_pool::join(shared_work& work, locked& lock) noexcept {
    ++work.threads;
    ++computing_;
    note_work();
    if (work.team.take_part == nullptr) {
        carry_out_parts(work, lock, false);
    } else {
        lock.unlock();
        const bool is_over = work.team.take_part(work.team.body);
        lock = lock_soon();
        if (is_over) stop_sharing(work);
    }
    --work.threads;
    --computing_;
    note_work();
    // From here on the thread that shares may end the work.
    if (work.threads == 0) parts_over_.notify_all();
}

void worker_pool::carry_out_parts(shared_work& work, locked& lock, bool is_of_this_thread) noexcept {
    const detail::part_runner_scope runner(&inner_);
    while (work.next < work.parts && (is_of_this_thread || ready_.empty())) {
        const std::size_t part = work.next++;
        if (work.next == work.parts) stop_sharing(work);
        lock.unlock();
        std::exception_ptr failure;
        try {
            work.function(part);
        } catch (...) {
            failure = std::current_exception();
        }
        if (is_of_this_thread) wake_helpers();
        lock = lock_soon();
        if (!failure) continue;
        if (!work.failure) work.failure = std::move(failure);
        work.next = work.parts;
        stop_sharing(work);
    }
}

void worker_pool::wait_for_others(shared_work& work, locked& lock) noexcept {
    --work.threads;
    computing_ -= work.counted;
    note_work();
    for (detail::short_wait wait; work.threads != 0 && wait.keeps_core();) {
        lock.unlock();
        wait();
        lock = lock_soon();
    }
    parts_over_.wait(lock, [&] { return work.threads == 0; });
}

void worker_pool::run_parts(std::size_t parts, detail::part_function function, std::size_t counted) {
    if (workers_ == 1) {
        for (std::size_t part = 0; part < parts; ++part) function(part);
        return;
    }
    // This thread counts: with one more than there are workers, one of them would wait for a core.
    shared_work work{.function = function,
                     .team = {},
                     .parts = parts,
                     .most_threads = std::min(parts, workers_),
                     .counted = counted,
                     .core = current_core()};
    computing_.fetch_add(counted, std::memory_order_relaxed);
    locked lock = lock_soon();
    share(work, lock, true);
    carry_out_parts(work, lock, true);
    wait_for_others(work, lock);
    if (work.failure) std::rethrow_exception(std::move(work.failure));
}

// Where a team is short and all cores compute, what it costs to divide the work is lost. Then no lock is taken either:
// threads that call one short command after the other would wait for it.
void worker_pool::run_team(detail::team_function function, std::size_t others, detail::team_wakes wakes,
                           std::size_t counted) noexcept {
    const bool is_short = wakes == detail::team_wakes::now_and_then;
    const std::size_t computing = computing_.fetch_add(counted, std::memory_order_relaxed) + counted;
    if (is_short && computing >= workers_) {
        function.do_all(function.body);
        computing_.fetch_sub(counted, std::memory_order_relaxed);
        return;
    }
    shared_work work{.function = {},
                     .team = function,
                     .parts = 0,
                     .most_threads = std::min(others + 1, workers_),
                     .counted = counted,
                     .core = current_core()};
    {
        locked lock = lock_soon();
        if (is_short) short_teams_ = (short_teams_ + 1) % short_teams_of_wake_up;
        share(work, lock, !is_short || short_teams_ == 0);
    }
    function.take_part(function.body);
    locked lock = lock_soon();
    stop_sharing(work);
    wait_for_others(work, lock);
}

bool worker_pool::take(place& ready) noexcept {
    const locked lock = lock_soon();
    if (!ready.is_ready_) return false;
    ready_.remove(ready);
    ready.is_ready_ = false;
    left_in_vain_ = 0;
    note_work();
    return true;
}

void worker_pool::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        note_work();
        while (sleeper* const each = take_sleeper()) {
            each->is_woken = true;
            each->wake.notify_one();
        }
    }
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

}  // namespace sluice::cpu
