// SPDX-License-Identifier: Apache-2.0
// What the user requires of a run's outputs: --tolerance of a reference, --min-accuracy against labels.
#pragma once

#include <string>

#include "run_command.hpp"

namespace sluice::app {

// Whether the outputs are as near to the reference as required; true where nothing is required. NaN is never near.
bool meets_tolerance(const run_options& options, const run_outcome& result) noexcept;
// Whether enough rows have the class of their label; true where nothing is required.
bool meets_accuracy(const run_options& options, const run_outcome& result) noexcept;

// Part of the rows whose largest output is at the label's class, from 0 to 1. Of a result with `correct`.
double accuracy_of(const run_outcome& result) noexcept;

// Which requirements the run misses, in one sentence; empty when it misses none.
std::string missed_requirements(const run_options& options, const run_outcome& result);

}  // namespace sluice::app
