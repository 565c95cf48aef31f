// SPDX-License-Identifier: Apache-2.0
// The sessions that a seed runs. Each compares results with the host's evaluation and reports differences.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/runtime/runtime.hpp"
#include "stress/report.hpp"

namespace sluice::stress {

struct session_options {
    std::uint64_t seed = 1;
    std::size_t threads = 3;
    // The features that programs may use.
    bool control = true, inner = true, pointers = true, selection = true;
};

// Programs that share an inner graph: run eagerly, compiled with replicas, updated, and launched and compiled by
// several threads.
void run_programs(device& on, const session_options& options, report& found);
// Each thread has its own graph, and all these graphs contain the same inner graph with large temporaries.
void run_inner(device& on, const session_options& options, report& found);
// Runs a few programs on the simulator.
void simulate_programs(const session_options& options, report& found);
// One launchable graph that kernels of several graphs launch, on several threads, while others read its state.
void run_launchable(device& on, const session_options& options, report& found);
// retry, or_else and timeout, waited for and dropped: their functions run one at a time, and never after the drop.
void run_host_driven(device& on, const session_options& options, report& found);
// Chains, diamonds and sums whose length is known at run time.
void run_deep(device& on, const session_options& options, report& found);

}  // namespace sluice::stress
