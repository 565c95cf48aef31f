// SPDX-License-Identifier: Apache-2.0
#include "distributed_run.hpp"
#include "sluice/base/error.hpp"

namespace sluice::app {

exit_status run_distributed(const run_options&, bool, std::ostream&, std::ostream&) {
    throw error(
        errc::unsupported,
        "this sluice was built without MPI: install an MPI (on Debian libopenmpi-dev and openmpi-bin) and build "
        "it again with -DSLUICE_MPI=ON",
        {"--distributed"});
}

}  // namespace sluice::app
