// SPDX-License-Identifier: Apache-2.0
// record_runs, profile_model: runs of a network on a device that is traced, and the time of each node.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sluice/nn/network.hpp"
#include "sluice/profiling/profile_rows.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/trace/trace_recorder.hpp"

namespace sluice::profiling {

// Calls `run` a few times, and then `runs` times for the sums. Each call is one run, and waits for it. Returns the
// trace of the last one. Throws errc::out_of_memory when commands found no room in the recorder. Costs these runs, and
// the sums over their commands.
trace record_runs(const std::function<void()>& run, trace_recorder& recorder, std::size_t runs, profile_sums& sums);

// The profile of a network on a device of this name, in a runtime of its own with these options. The inputs are in host
// memory. Blocks. Throws what making and running the network throws. Costs a runtime, make_network, and what
// record_runs costs.
network_profile profile_model(nn::model from, const nn::network_options& options, runtime_options machine,
                              const std::string& device_name, const std::vector<nn::any_tensor>& inputs,
                              std::size_t runs);

}  // namespace sluice::profiling
