// SPDX-License-Identifier: Apache-2.0
// Checks the names of the files that a run will write.
#pragma once

#include "run_command.hpp"

namespace sluice::app {

// Throws error (errc::invalid_argument) when a name is empty, and when two names lead to one file, also through links:
// of two outputs in one file only the last one written would remain.
void check_output_names(const run_options& options);

}  // namespace sluice::app
