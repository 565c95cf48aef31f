// SPDX-License-Identifier: Apache-2.0
// `sluice run --distributed`: one run by many processes that mpirun has started.
#pragma once

#include <iosfwd>

#include "sluice/exit_status.hpp"
#include "sluice/run_command.hpp"

namespace sluice::app {

// Runs this process's share of the rows. Rank 0 writes the report to `out`, and the failure of any rank to `errors`.
// Blocks until all ranks have ended, and returns the same on all of them; throws only where there is no job that could
// report it. On the main thread only, once a process. Throws errc::unsupported in a build without MPI.
exit_status run_distributed(const run_options& options, bool as_json, std::ostream& out, std::ostream& errors);

}  // namespace sluice::app
