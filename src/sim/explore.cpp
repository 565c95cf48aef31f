// SPDX-License-Identifier: Apache-2.0
#include "sluice/sim/explore.hpp"

#include <stdexcept>

#include "sim/random.hpp"
#include "sluice/base/error.hpp"

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
        return "an exception that is not a std::exception";
    }
}

// An exception may only result from a finding or from a device that broke down; reports any other.
void report_unexpected(simulator& on, const std::exception_ptr& thrown, const exploration_options& options) {
    if (!on.findings().empty() || options.exceptions_are_fine) return;
    const std::string what = describe(thrown);
    if (!on.breakdown()) return on.report(fault::exception, "the pipeline threw: " + what);
    const std::string cause = describe(on.breakdown());
    if (what != cause) {
        on.report(fault::exception,
                  "the pipeline threw: " + what + "; it should have received the device's fault: " + cause);
    }
}

void run_schedule(simulator& on, const run_once& run, const exploration_options& options) {
    round_robin pool(on.device(), options.streams);  // outlives run_all(), because abandoned tasks may use it
    try {
        run(on, pool);
    } catch (...) {
        report_unexpected(on, std::current_exception(), options);
    }
    on.run_all();
}

// The simulator that runs the schedules: the user's, or our own ones, one after the other.
class stand {
public:
    stand(simulator* users, const exploration_options& options) : options_(options), on_(users) {
        if (users != nullptr && options.with_device_faults)
            throw error(errc::invalid_argument,
                        "device faults need simulators that explore creates itself: leave out the simulator");
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
            result.executed_trace = on_->executed_trace();
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
    runs.run(0, stand::never, run, result);  // in the order of submission: gives the expected result
    if (result.found) result.schedules = 1;
    const std::uint64_t orderly = runs.ran();
    while (!result.found && result.schedules < options.schedules) {
        const std::uint64_t seed = options.seed + result.schedules;
        // A separate generator, so that the schedule up to the fault is the same as without it.
        random fault(~seed);
        const std::uint64_t breaks_after = fault.draw(static_cast<std::uint32_t>(orderly) + 1);
        runs.run(seed, options.with_device_faults ? breaks_after : stand::never, run, result);
        ++result.schedules;
    }
    return result;
}

}  // namespace detail
}  // namespace sluice::sim
