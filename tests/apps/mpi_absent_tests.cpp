// SPDX-License-Identifier: Apache-2.0
// `sluice run --distributed` in a build without MPI.
#include <gmock/gmock.h>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing {

TEST(tool_without_mpi, says_how_to_get_distributed_runs) {
    const temporary_directory directory;
    const outcome came =
        run_tool({"run", "--distributed", digits().model, digits().input, "--output", directory / "out.npy"});
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, ::testing::AllOf(::testing::HasSubstr("built without MPI"),
                                           ::testing::HasSubstr("libopenmpi-dev"), ::testing::HasSubstr("SLUICE_MPI")));
    EXPECT_EQ(directory.entries(), 0);
}

}  // namespace sluice::app::testing
