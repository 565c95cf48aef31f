#include "sluice/sim/explore.hpp"

#include <stdexcept>

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

void run_schedule(simulator& on, const run_once& run, std::uint64_t seed, const exploration_options& options) {
    on.begin(seed);
    round_robin pool(on.device(), options.streams);  // abandoned tasks may use it to the end
    try {
        run(pool);
    } catch (...) {
        // What it threw may only follow from what was found.
        if (on.findings().empty() && !options.exceptions_are_fine)
            on.report(fault::exception, "the pipeline threw: " + describe(std::current_exception()));
    }
    on.run_all();
}

}  // namespace

exploration explore(simulator& on, const run_once& run, const exploration_options& options) {
    exploration result;
    on.begin(0);
    on.clear_findings();
    const std::uint64_t commands_before = on.commands();
    const auto is_found = [&] {
        if (!on.findings().empty()) result.found = on.findings().front();
        return result.found.has_value();
    };
    run_schedule(on, run, 0, options);  // in the order of submission: what the results are compared with
    if (is_found()) result.schedules = 1;
    while (!result.found && result.schedules < options.schedules) {
        run_schedule(on, run, options.seed + result.schedules, options);
        ++result.schedules;
        if (is_found()) break;
    }
    result.commands = on.commands() - commands_before;
    return result;
}

}  // namespace detail
}  // namespace sluice::sim
