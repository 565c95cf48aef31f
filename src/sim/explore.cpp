#include "sluice/sim/explore.hpp"

#include <stdexcept>

#include "sim/random.hpp"
#include "sluice/runtime/error.hpp"

namespace sluice::sim {

void exploration::require_clean() const {
    if (found) throw std::runtime_error(to_string(*found));
}

namespace detail {
namespace {

std::string describe(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& failure) {
        return failure.what();
    } catch (...) {
        return "something that is no std::exception";
    }
}

// What it threw may only follow from what was found, or from a device that broke down.
void judge(simulator& on, const std::exception_ptr& thrown, const exploration_options& options) {
    if (!on.findings().empty() || options.exceptions_are_fine) return;
    const std::string what = describe(thrown);
    if (!on.breakdown()) return on.report(fault::exception, "the pipeline threw: " + what);
    const std::string cause = describe(on.breakdown());
    if (what != cause) {
        on.report(fault::exception,
                  "the pipeline threw: " + what + "; it should have been told the device's fault: " + cause);
    }
}

void run_schedule(simulator& on, const run_once& run, const exploration_options& options) {
    round_robin pool(on.device(), options.streams);  // abandoned tasks may use it to the end
    try {
        run(on, pool);
    } catch (...) {
        judge(on, std::current_exception(), options);
    }
    on.run_all();
}

// The simulator that runs the schedules: the user's, or one of our own after the other.
class stand {
public:
    stand(simulator* users, const exploration_options& options) : options_(options), on_(users) {
        if (users != nullptr && options.with_device_faults)
            throw error(errc::invalid_argument, "device faults need simulators that nobody else uses");
        if (users == nullptr) renew();
        on_->begin(0);
        on_->clear_findings();
    }

    void run(std::uint64_t seed, std::uint64_t breaks_after, const run_once& run, exploration& result) {
        const std::uint64_t before = on_->commands();
        on_->begin(seed);
        if (breaks_after != never) on_->break_down_after(breaks_after);
        run_schedule(*on_, run, options_);
        result.commands += ran_ = on_->commands() - before;
        if (!on_->findings().empty()) {
            result.found = on_->findings().front();
            result.what_ran = on_->what_ran();
        }
        if (!on_->breakdown()) return;
        ++result.faults;
        renew();
    }
    std::uint64_t ran() const noexcept { return ran_; }  // commands, in the last schedule

    static constexpr std::uint64_t never = ~std::uint64_t{0};

private:
    void renew() {
        own_.emplace(simulator_options{options_.devices, options_.streams, options_.memory_bytes, options_.planted});
        on_ = &*own_;
    }

    const exploration_options& options_;
    std::optional<simulator> own_;
    simulator* on_;
    std::uint64_t ran_ = 0;
};

}  // namespace

exploration explore(simulator* on, const run_once& run, const exploration_options& options) {
    exploration result;
    stand runs(on, options);
    runs.run(0, stand::never, run, result);  // in the order of submission: what the results are compared with
    if (result.found) result.schedules = 1;
    const std::uint64_t orderly = runs.ran();
    while (!result.found && result.schedules < options.schedules) {
        const std::uint64_t seed = options.seed + result.schedules;
        // Of its own, so that the schedule goes as it would without a fault up to there.
        random fault(~seed);
        const std::uint64_t breaks_after = fault.draw(static_cast<std::uint32_t>(orderly) + 1);
        runs.run(seed, options.with_device_faults ? breaks_after : stand::never, run, result);
        ++result.schedules;
    }
    return result;
}

}  // namespace detail
}  // namespace sluice::sim
