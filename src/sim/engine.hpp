// What carries out the commands of all simulated streams: chooses who goes on, keeps virtual time, tells who waits.
//
// Commands run at any call of an interpreter: within a submission too, or when a pool asks whether a block is free, and
// so while locks of the runtime are held. Then no host call runs, nothing is let go of and nobody is told; that waits
// until the host waits or the simulator itself runs.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/completion_service.hpp"
#include "sim/arena.hpp"
#include "sim/checker.hpp"
#include "sim/random.hpp"
#include "sim/schedule.hpp"
#include "sim/sim_stream.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/sim/saboteur.hpp"

namespace sluice::sim::detail {

using time_point = sluice::detail::alarm::clock::time_point;

class engine final : public sluice::detail::service_driver, private witness {
public:
    explicit engine(saboteur* fault) : planted(fault) {}
    engine(const engine&) = delete;  // streams and memory point to it
    engine& operator=(const engine&) = delete;
    ~engine() = default;

    // Everything has run. Seed 0: commands run in the order of their submission.
    void begin(std::uint64_t seed);

    // Runs one command; false when there is none that can run. With locks held, none that is the user's host code,
    // which may need them.
    enum class locks : bool { none, held };
    bool step(locks are = locks::none);
    // Runs commands, and what the completion service has to do, until it is over; false when nothing can run before, or
    // when all that could happen before the deadline has.
    template <typename Predicate>
    bool run(const Predicate& is_over, time_point deadline = time_point::max()) {
        while (!is_over()) {
            if (deadline <= time()) return false;
            if (service_of_8_ != 0 && draw(8) < service_of_8_ && serve()) continue;
            if (step()) {
                if (draw(2) == 0) ring();  // before those who wait are told, or after
                settle();
                continue;
            }
            settle();  // commands may have run within a submission
            // (Looking for commands stamps events.)
            if (!serve() && !is_over() && !pass_time(deadline)) return false;
        }
        settle();
        return true;
    }
    // Runs all there is, and then looks for what is stuck.
    void finish();
    // The host waits for this, and it can never come: reports it, and throws.
    [[noreturn]] void give_up(const std::string& awaited);

    // The command that would be the n-th to run since begin() breaks its device down instead; 0: none does. A device
    // that has broken down runs nothing more. The host finds out as it does on a GPU: whenever it next asks, waits or
    // submits; or by itself, as it might on a CPU.
    void break_down_at(std::uint64_t command) noexcept { breaks_at_ = command; }
    std::exception_ptr breakdown() const noexcept { return cause_; }
    bool is_broken(const device& which) const noexcept { return broken_ == &which; }
    // Poisons the broken device. No lock is held but a stream's or a pool's.
    void notice_breakdown() noexcept;

    // Of the completion service. Deadlines lie in virtual time: what the host has seen of it, and what commands took.

    time_point now() const noexcept override { return time(); }
    time_point due(const sluice::detail::deadline& until) const noexcept override;
    bool run_until(const std::function<bool()>& is_over, time_point deadline) override;

    // Of streams.

    thread_index add(sim_stream& one);  // throws errc::unsupported for too many
    void remove(thread_index one) noexcept { streams_[one - 1] = nullptr; }
    void submitted();
    void poll() noexcept;
    void bury(remains&& dead);
    void host_sees(const vector_clock& clock, nanoseconds when) noexcept;
    std::uint32_t draw(std::uint32_t bound) noexcept { return random_.draw(bound); }
    // Whether this schedule is the one in the order of submission.
    bool is_in_order() const noexcept { return in_order_; }
    // Whether the host asks again and again while nothing happens: then something has to. (So often in a row nobody
    // asks who holds a lock.)
    void asked() noexcept {
        if (++asked_in_vain_ <= most_asked_in_vain || checks_.is_running()) return;
        step(asked_in_vain_ > 2 * most_asked_in_vain ? locks::none : locks::held);
    }

    void remember(block* made) { blocks_.push_back(made); }
    void forget(block* gone) noexcept { std::erase(blocks_, gone); }
    const std::vector<block*>& blocks() const noexcept { return blocks_; }

    checker& checks() noexcept { return checks_; }
    arena& memory() noexcept { return arena_; }
    saboteur* const planted;
    sluice::detail::completion_service* service = nullptr;
    bool is_closing = false;
    bool is_short_of_memory = false;  // a pool's lock is held while the host waits
    bool waits_are_void = false;      // after a deadlock, to come to an end
    std::uint64_t commands = 0;       // that have run, ever
    std::uint64_t submissions = 0;
    nanoseconds host_time = 0;

    // How this schedule's device behaves.
    bool is_watched = false;    // as on CUDA: passed() lags until a poll, and the completion service has to look
    bool waits_widely = false;  // as on CUDA: waits for all that was submitted until then

private:
    static constexpr std::uint32_t most_asked_in_vain = 1'000;

    actor describe(thread_index thread, moment when) const override;
    bool serve();
    time_point time() const noexcept { return began_ + std::chrono::nanoseconds(std::max(host_time, latest_end_)); }
    void ring() noexcept;
    bool pass_time(time_point deadline) noexcept;
    void settle();
    void break_down(sim_stream& running);
    void report_stuck(const std::string& who);

    std::vector<sim_stream*> streams_;  // by thread, from 1
    std::vector<block*> blocks_;
    checker checks_{*this};
    arena arena_;
    random random_{0};
    schedule schedule_{0, 0};
    time_point began_{};  // by the real clock
    nanoseconds latest_end_ = 0;
    bool in_order_ = false;
    std::uint32_t eager_of_8_ = 0;    // how often commands run within a submission
    std::uint32_t service_of_8_ = 0;  // how often the service goes first
    std::size_t current_ = max_threads;
    std::uint32_t asked_in_vain_ = 0;
    std::uint64_t ran_ = 0;  // commands, in this schedule
    std::uint64_t breaks_at_ = 0;
    device* broken_ = nullptr;
    std::exception_ptr cause_;
    bool is_blamed_again_ = false;
    bool is_serving_ = false;
    bool is_settling_ = false;
    std::vector<remains> dead_;
};

}  // namespace sluice::sim::detail
