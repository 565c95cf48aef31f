// SPDX-License-Identifier: Apache-2.0
// The worker threads of a CPU device. They run streams that have commands, each stream on one worker at a time. A
// stream that must wait for another releases its worker. Among ready streams the most urgent (the lowest numbers) run
// first; equals run in the order in which they became ready.
//
// A thread that waits for a stream can take it from the queue and run it (cpu_stream::wait). Then it computes with the
// floating-point environment of the workers, which is that of the thread that made the pool.
//
// A command that divides its work into parts (runtime/parallel_parts.hpp) shares them with workers for which no stream
// is ready. Such a worker returns to the streams after the part that it has begun.
//
// A worker without work looks for some on its core before it sleeps, and the one that fell asleep last is woken first:
// so the same worker helps with one short command after the other, and the rest of them sleep.
//
// Thread safety: all members may be called on any thread; close() only once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/current_core.hpp"
#include "cpu/float_environment.hpp"
#include "runtime/parallel_parts.hpp"
#include "runtime/short_wait.hpp"
#include "runtime/usable_cores.hpp"
#include "sluice/async/detail/thread_duty.hpp"
#include "sluice/base/detail/pairing_heap.hpp"

namespace sluice::cpu {

class cpu_stream;

class worker_pool final : public detail::part_runner {
public:
    // A stream's entry in the queue of ready streams.
    class place {
    public:
        place(cpu_stream& of, int urgency) noexcept : of_(of), urgency_(urgency) {}
        place(const place&) = delete;  // the queue points to it
        place& operator=(const place&) = delete;

        int urgency() const noexcept { return urgency_.load(std::memory_order_relaxed); }
        // Takes effect when the stream is next scheduled.
        void set_urgency(int urgency) noexcept { urgency_.store(urgency, std::memory_order_relaxed); }

    private:
        friend class worker_pool;
        struct goes_first {
            bool operator()(const place& a, const place& b) const noexcept {
                return a.rank_ != b.rank_ ? a.rank_ < b.rank_ : a.turn_ < b.turn_;
            }
        };
        friend class detail::pairing_heap<place, goes_first>;

        cpu_stream& of_;
        std::atomic<int> urgency_;
        // Guarded by the worker_pool's lock.
        bool is_ready_ = false;
        int rank_ = 0;  // the urgency with which it was queued
        std::uint64_t turn_ = 0;
        place* next_ = nullptr;
        place* child_ = nullptr;
        place* previous_ = nullptr;
    };

    explicit worker_pool(std::size_t workers);
    worker_pool(const worker_pool&) = delete;  // streams and threads point to it
    worker_pool& operator=(const worker_pool&) = delete;
    ~worker_pool() { close(); }

    // Queues the stream for a worker. A stream is scheduled at most once at a time.
    void schedule(place& ready) noexcept;
    // The stream has become more urgent: if it is ready, moves it before less urgent ones.
    void raise_urgency(place& one) noexcept;
    std::size_t workers() const noexcept { return workers_; }
    // Takes the stream from the queue, so that the calling thread can run it; false when it is not queued.
    bool take(place& ready) noexcept;
    // While this exists, the calling thread is like a worker: it runs a stream that it has taken.
    class helper {
    public:
        explicit helper(worker_pool& of) noexcept
            : runner_(&of), duty_(detail::thread_duty::runs_commands), environment_(of.environment_) {}

    private:
        const detail::part_runner_scope runner_;
        const detail::duty_scope duty_;
        const float_environment::scope environment_;
    };
    // Whether the calling thread is one of the workers, or a helper.
    bool is_worker() const noexcept {
        const detail::part_runner* const runner = detail::current_part_runner();
        return runner == this || runner == &inner_;
    }
    // With at most as many threads as there are workers, the calling one among them; with fewer, where other threads
    // that share their work compute already.
    void run_parts(std::size_t parts, detail::part_function function) override { run_parts(parts, function, 1); }
    void run_team(detail::team_function function, std::size_t others, detail::team_wakes wakes) noexcept override {
        run_team(function, others, wakes, 1);
    }
    std::size_t threads() const noexcept override { return workers_; }
    bool needs_thread() const noexcept override { return first_rank() != none_ready; }
    // Whether a stream that is ready is more urgent than this one.
    bool is_urgent_ready(const place& than) const noexcept { return first_rank() < than.urgency(); }
    void wake_helpers() noexcept override;
    // Ends the threads after what they currently run.
    void close() noexcept;

private:
    using locked = std::unique_lock<std::mutex>;
    static constexpr std::int64_t none_ready = std::numeric_limits<std::int64_t>::max();  // no rank

    // The parts of a command that its thread shares, or the team of one.
    struct shared_work {
        detail::part_function function;
        detail::team_function team;  // null: parts
        std::size_t parts;
        std::size_t most_threads;
        std::size_t counted;      // in computing_, for the thread that shares: 1; or 0, if it counts already
        int core;                 // on which the thread that shares ran
        std::size_t next = 0;     // the first part that no thread has begun
        std::size_t threads = 1;  // which carry out parts, or belong to the team; the one that shares counts at once
        std::exception_ptr failure = {};
        shared_work* next_shared = nullptr;
    };

    // For the parts of a part: the thread counts already.
    class inner_runner final : public detail::part_runner {
    public:
        explicit inner_runner(worker_pool& of) noexcept : of_(of) {}
        void run_parts(std::size_t parts, detail::part_function function) override {
            of_.run_parts(parts, function, 0);
        }
        void run_team(detail::team_function function, std::size_t others, detail::team_wakes wakes) noexcept override {
            of_.run_team(function, others, wakes, 0);
        }
        std::size_t threads() const noexcept override { return of_.threads(); }
        bool needs_thread() const noexcept override { return of_.needs_thread(); }
        void wake_helpers() noexcept override { of_.wake_helpers(); }

    private:
        worker_pool& of_;
    };

    // A worker that sleeps, until another thread has taken it from the list and set is_woken.
    struct sleeper {
        std::condition_variable wake = {};
        bool is_woken = false;
        woken_thread cores = {};
        std::atomic<int> core = -1;  // where it was when it last looked; -1 while it sleeps
        sleeper* next = nullptr;
    };

    void work(sleeper& self);
    void run_parts(std::size_t parts, detail::part_function function, std::size_t counted);
    void run_team(detail::team_function function, std::size_t others, detail::team_wakes wakes,
                  std::size_t counted) noexcept;
    locked lock_soon() noexcept { return detail::lock_soon(mutex_); }
    // All of these with the lock held. They release it while they carry something out, look or sleep.
    void note_work() noexcept;
    bool has_work() const noexcept { return !ready_.empty() || closing_ || work_to_join() != nullptr; }
    std::int64_t first_rank() const noexcept { return first_rank_.load(std::memory_order_relaxed); }
    // As many threads compute, of those that count (computing_), as there are workers.
    bool is_full() const noexcept { return computing_.load(std::memory_order_relaxed) >= workers_; }
    void look(locked& lock) noexcept;
    void sleep(locked& lock, sleeper& self) noexcept;
    void leave_other_worker(sleeper& self, core_change& change) const noexcept;
    bool leave_core(int core, core_change& change, locked& lock) noexcept;
    // The worker counts as looking from now on. The caller wakes it, without the lock. Null: all are awake.
    sleeper* take_sleeper() noexcept;
    void wake(sleeper& one) noexcept;
    void share(shared_work& work, locked& lock, bool wakes) noexcept;
    void wake_for(const shared_work& work, locked& lock) noexcept;
    shared_work* work_to_join() const noexcept;
    void join(shared_work& work, locked& lock) noexcept;
    void carry_out_parts(shared_work& work, locked& lock, bool is_of_this_thread) noexcept;
    void stop_sharing(shared_work& work) noexcept;
    void wait_for_others(shared_work& work, locked& lock) noexcept;

    const std::size_t workers_;
    const std::size_t cores_ = detail::usable_cores();
    const float_environment environment_;  // of the thread that makes the pool
    inner_runner inner_{*this};
    std::mutex mutex_;
    detail::pairing_heap<place, place::goes_first> ready_;
    // Written with the lock held (note_work), for threads that look without it: not in the cache line of the lock.
    alignas(64) std::atomic<std::int64_t> first_rank_{none_ready};  // of the ready streams
    std::atomic<bool> has_work_{false};
    // Threads that compute work which they share or would share, or have joined work. Changed without the lock too.
    alignas(64) std::atomic<std::size_t> computing_{0};
    // The tick since which a core was free at each look of wake_helpers(). 0: at the last one none was.
    alignas(64) std::atomic<std::uint64_t> free_since_{0};
    alignas(64) std::uint64_t turns_ = 0;
    bool closing_ = false;
    std::size_t looking_ = 0;        // workers that look for work, or are about to
    unsigned left_in_vain_ = 0;      // streams that no thread took while they were left to it, since one was taken
    sleeper* asleep_ = nullptr;      // the last first
    shared_work* shared_ = nullptr;  // all with parts that no thread has begun, and teams that are not over
    unsigned short_teams_ = 0;       // how many began since a thread was woken for one
    std::condition_variable parts_over_;
    const std::unique_ptr<sleeper[]> sleepers_;  // one of each worker
    std::vector<std::thread> threads_;           // last: they use all of the above
};

}  // namespace sluice::cpu
