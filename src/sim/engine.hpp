// What carries out the commands of all simulated streams: chooses who goes on, keeps virtual time, tells who waits.
//
// Commands run at any call of an interpreter: within a submission too, or when a pool asks whether a block is free, and
// so while locks of the runtime are held. Then nothing is let go of and nobody is told; that waits until the host waits
// or the simulator itself runs.
#pragma once

#include <optional>
#include <vector>

#include "runtime/completion_service.hpp"
#include "sim/arena.hpp"
#include "sim/checker.hpp"
#include "sim/random.hpp"
#include "sim/schedule.hpp"
#include "sim/sim_stream.hpp"
#include "sluice/sim/saboteur.hpp"

namespace sluice::sim::detail {

class engine final : private witness {
public:
    explicit engine(saboteur* fault) : planted(fault) {}
    engine(const engine&) = delete;  // streams and memory point to it
    engine& operator=(const engine&) = delete;
    ~engine() = default;

    // Everything has run. Seed 0: commands run in the order of their submission.
    void begin(std::uint64_t seed);

    // Runs one command; false when there is none that can run.
    bool step();
    // Runs commands, and what the completion service has to do, until it is over; false when nothing can run before.
    template <typename Predicate>
    bool run_until(const Predicate& is_over) {
        while (!is_over()) {
            if (service_of_8_ != 0 && draw(8) < service_of_8_ && serve()) continue;
            if (step() || serve()) {
                settle();
            } else {
                return is_over();  // looking for commands stamps events
            }
        }
        settle();
        return true;
    }
    // Runs all there is, and then looks for what is stuck.
    void finish();
    // The host waits for this, and it can never come: reports it, and throws.
    [[noreturn]] void give_up(const std::string& awaited);

    // Of streams.

    thread_index add(sim_stream& one);  // throws errc::unsupported for too many
    void remove(thread_index one) noexcept { streams_[one - 1] = nullptr; }
    void submitted();
    void poll() noexcept;
    void bury(remains&& dead);
    void host_sees(const vector_clock& clock, nanoseconds when) noexcept;
    std::uint32_t draw(std::uint32_t bound) noexcept { return random_.draw(bound); }
    // Whether the host asks again and again while nothing happens: then something has to.
    void asked() noexcept {
        if (++asked_in_vain_ > most_asked_in_vain && !checks_.is_running()) step();
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
    nanoseconds now = 0;  // the host's time

    // How this schedule's device behaves.
    bool is_watched = false;    // as on CUDA: passed() lags until a poll, and the completion service has to look
    bool waits_widely = false;  // as on CUDA: waits for all that was submitted until then

private:
    static constexpr std::uint32_t most_asked_in_vain = 1'000;

    actor describe(thread_index thread, moment when) const override;
    bool serve();
    void settle();
    void report_stuck(const std::string& who);

    std::vector<sim_stream*> streams_;  // by thread, from 1
    std::vector<block*> blocks_;
    checker checks_{*this};
    arena arena_;
    random random_{0};
    schedule schedule_{0, 0};
    bool in_order_ = false;
    std::uint32_t eager_of_8_ = 0;    // how often commands run within a submission
    std::uint32_t service_of_8_ = 0;  // how often the service goes first
    std::size_t current_ = max_threads;
    std::uint32_t asked_in_vain_ = 0;
    bool is_serving_ = false;
    bool is_settling_ = false;
    std::vector<remains> dead_;
};

}  // namespace sluice::sim::detail
