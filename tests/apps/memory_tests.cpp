// SPDX-License-Identifier: Apache-2.0
// How much memory `sluice run` takes for a large input.
#include <gtest/gtest.h>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"

namespace sluice::app::testing {

TEST(tool_memory, does_not_grow_with_the_input) {
#ifdef SLUICE_IS_SANITIZED
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
    constexpr std::size_t bytes = std::size_t{1} << 30;
    constexpr std::size_t rows = bytes / (digits_files::inputs * sizeof(float));
    const temporary_directory directory;
    const std::string input = write_sparse_array(directory, "zeros.npy", rows, digits_files::inputs);
    const outcome came = run_tool({"run", digits().model, input, "--device", "cpu", "--json"});
    ASSERT_EQ(came.exit_code, 0) << came;
    EXPECT_LT(came.peak_memory_bytes, std::size_t{400} << 20);
    RecordProperty("peak_memory_mib", static_cast<int>(came.peak_memory_bytes >> 20));
}

}  // namespace sluice::app::testing
