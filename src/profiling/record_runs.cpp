// SPDX-License-Identifier: Apache-2.0
#include "sluice/profiling/record_runs.hpp"

#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/profiling/step_names.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::profiling {

constexpr std::size_t warm_up_runs = 3;

trace record_runs(const std::function<void()>& run, trace_recorder& recorder, std::size_t runs, profile_sums& sums) {
    for (std::size_t i = 0; i < warm_up_runs; ++i) run();
    static_cast<void>(recorder.take());
    trace last;
    for (std::size_t i = 0; i < runs; ++i) {
        run();
        last = recorder.take();
        sums.add(last);
    }
    if (recorder.dropped() != 0) {
        throw error(errc::out_of_memory, std::to_string(recorder.dropped()) +
                                             " commands found no room in the trace: the times would be wrong");
    }
    return last;
}

network_profile profile_model(nn::model from, const nn::network_options& options, runtime_options machine,
                              const std::string& device_name, const std::vector<nn::any_tensor>& inputs,
                              std::size_t runs) {
    trace_recorder recorder;
    machine.trace = &recorder;
    const runtime traced(machine);
    round_robin pool(traced.find(device_name), 1);
    const nn::network network = sync(nn::make_network(with_distinct_names(std::move(from)), options), pool);
    profile_sums sums;
    static_cast<void>(record_runs([&] { static_cast<void>(sync(network.run(inputs), pool)); }, recorder, runs, sums));
    network_profile made;
    sums.fill(made, network.steps());
    return made;
}

}  // namespace sluice::profiling
