// SPDX-License-Identifier: Apache-2.0
// Runs the commands of all simulated streams: selects the next stream, keeps virtual time, wakes the waiters.
//
// Commands may run in any call of an interpreter, also within a submission or when a pool checks whether a block is
// free, and so while locks of the runtime are held. In that case no host call runs, nothing that commands owned is
// destroyed and no waiter is woken; this happens when the host next waits or the simulator itself runs.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/completion_service.hpp"
#include "sim/arena.hpp"
#include "sim/checker.hpp"
#include "sim/host_threads.hpp"
#include "sim/random.hpp"
#include "sim/schedule.hpp"
#include "sim/sim_stream.hpp"
#include "sluice/async/detail/wait_driver.hpp"
#include "sluice/base/deadline.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/sim/detail/saboteur.hpp"

namespace sluice::sim::detail {

using time_point = sluice::detail::timer::clock::time_point;

class sim_machine final : public sluice::detail::service_driver, private checked_machine {
public:
    explicit sim_machine(saboteur* fault) : planted(fault) {}
    sim_machine(const sim_machine&) = delete;  // streams and memory point to it
    sim_machine& operator=(const sim_machine&) = delete;

    // Starts a schedule; everything must have run. Seed 0: commands run in the order of their submission.
    void begin(std::uint64_t seed);

    // Runs one command; false when none can run. With locks held it does not run the user's host code, which may need
    // them.
    enum class locks : bool { none, held };
    bool step(locks are = locks::none);
    // Runs commands and the work of the completion service until the predicate is true; false when nothing more can
    // run, or when everything before the deadline has happened.
    template <typename Predicate>
    bool run(const Predicate& is_over, time_point deadline = time_point::max()) {
        while (!is_over()) {
            if (deadline <= time()) return false;
            if (service_eighths_ != 0 && draw(8) < service_eighths_ && serve()) continue;
            if (step()) {
                if (draw(2) == 0) ring();  // before the waiters are woken, or after
                settle();
                continue;
            }
            settle();  // commands may have run within a submission
            // (Looking for commands stamps events.)
            if (serve() || is_over()) continue;
            if (threads != nullptr && threads->run_others()) continue;
            if (!pass_time(deadline)) return false;
        }
        settle();
        return true;
    }
    // Runs everything, then looks for stuck streams and waiters.
    void finish();
    // The host waits for something that can never happen: reports it and throws.
    [[noreturn]] void give_up(const std::string& awaited);

    // The n-th command to run since begin() breaks down its device instead of running; 0: none does. A device that has
    // broken down runs nothing more. The host notices as on a GPU, when it next polls, waits or submits; or without
    // asking, as it might on a CPU.
    void break_down_at(std::uint64_t command) noexcept { breaks_at_ = command; }
    std::exception_ptr breakdown() const noexcept { return cause_; }
    bool is_broken(const device& which) const noexcept { return broken_ == &which; }
    // Poisons the broken device. Called with no locks except a stream's or a pool's.
    void notice_breakdown() noexcept;

    // For the completion service. Deadlines are in virtual time: the later of the host's time and the end of the last
    // command.

    time_point now() const noexcept override { return time(); }
    time_point due(const sluice::detail::deadline& until) const noexcept override;
    bool run_until(const std::function<bool()>& is_over, time_point deadline) override;
    // The same without a deadline; false, without a finding, when nothing more can happen.
    bool run_what_can(const std::function<bool()>& is_over);
    // For sync_wait() and spawned::get() on the threads that use this machine.
    const std::shared_ptr<sluice::detail::wait_driver>& waits() const noexcept { return waits_; }

    // For streams.

    thread_index add(sim_stream& one);  // throws errc::unsupported when there are too many
    void remove(thread_index one) noexcept { streams_[one - 1] = nullptr; }
    void submitted();
    void poll() noexcept;
    void retire(remains&& dead);
    void host_sees(const vector_clock& clock, nanoseconds when) noexcept;
    std::uint32_t draw(std::uint32_t bound) noexcept { return random_.draw(bound); }
    // Whether this schedule runs commands in the order of submission.
    bool is_in_order() const noexcept { return in_order_; }
    // Called at each query of the host. After many queries during which nothing happened, runs a command. (No thread
    // that holds a lock queries that often in a row.)
    void asked() noexcept {
        if (++idle_queries_ <= max_idle_queries || checks_.is_running()) return;
        step(idle_queries_ > 2 * max_idle_queries ? locks::none : locks::held);
    }

    void remember(block* made) { blocks_.push_back(made); }
    void forget(block* gone) noexcept { std::erase(blocks_, gone); }
    // The program frees memory that it had adopted.
    void memory_freed(const void* data);
    const std::vector<block*>& blocks() const noexcept { return blocks_; }

    checker& checks() noexcept { return checks_; }
    arena& memory() noexcept { return arena_; }
    // Called when a command or a wait is handed to a stream: another host thread may run before the stream records it.
    void scheduling_point() noexcept {
        if (threads != nullptr && !checks_.is_running()) threads->scheduling_point();
    }

    saboteur* const planted;
    host_threads* threads = nullptr;  // while several threads run
    sluice::detail::completion_service* service = nullptr;
    bool is_closing = false;
    bool is_short_of_memory = false;  // a pool's lock is held while the host waits
    bool ignore_waits = false;        // after a deadlock, so that the run ends
    std::uint64_t commands = 0;       // run in all schedules
    std::uint64_t submissions = 0;
    nanoseconds host_time = 0;

    // How the devices behave in this schedule.
    bool is_watched = false;  // as on CUDA: passed() lags until a poll, and the completion service must poll
    bool waits_cover_all_issued = false;  // as on CUDA: waits for everything submitted so far

private:
    static constexpr std::uint32_t max_idle_queries = 1'000;

    class task_driver final : public sluice::detail::wait_driver {
    public:
        explicit task_driver(sim_machine& of) noexcept : of_(of) {}
        bool run_until(const std::function<bool()>& is_over) override { return of_.run_what_can(is_over); }
        bool run_until(const std::function<bool()>& is_over, time_point deadline) override {
            return of_.run_until(is_over, of_.due(sluice::detail::deadline(deadline)));
        }
        void give_up() override;

    private:
        sim_machine& of_;
    };

    void begin_wait();

    actor describe(thread_index thread, moment when) const override;
    bool serve();
    time_point time() const noexcept { return began_ + std::chrono::nanoseconds(std::max(host_time, latest_end_)); }
    void ring() noexcept;
    bool pass_time(time_point deadline) noexcept;
    void settle();
    void break_down(sim_stream& running);
    void report_stuck(const std::string& who);

    const std::shared_ptr<sluice::detail::wait_driver> waits_ = std::make_shared<task_driver>(*this);
    std::vector<sim_stream*> streams_;  // by thread, from 1
    std::vector<block*> blocks_;
    checker checks_{*this};
    arena arena_;
    random random_{0};
    schedule schedule_{0, 0};
    time_point began_{};  // by the real clock
    nanoseconds latest_end_ = 0;
    bool in_order_ = false;
    std::uint32_t eager_eighths_ = 0;    // how often commands run within a submission, in eighths
    std::uint32_t service_eighths_ = 0;  // how often the service runs first, in eighths
    std::size_t current_ = max_threads;
    std::uint32_t idle_queries_ = 0;
    std::uint64_t ran_ = 0;  // commands, in this schedule
    std::uint64_t breaks_at_ = 0;
    device* broken_ = nullptr;
    std::exception_ptr cause_;
    bool second_cause_reported_ = false;
    bool is_serving_ = false;
    bool is_settling_ = false;
    std::vector<remains> dead_;
};

}  // namespace sluice::sim::detail
