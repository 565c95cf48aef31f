// SPDX-License-Identifier: Apache-2.0
// `sluice tune` where there is nothing to measure: what it requires, and what it refuses.
#include "sluice/tune_command.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "apps/support/sample_files.hpp"
#include "apps/support/subprocess.hpp"
#include "conformance/expect_refused.hpp"
#include "sluice/kernels/gemm_tuning.hpp"
#include "sluice/runtime/runtime.hpp"

namespace sluice::app::testing::tune_tests {
namespace {

using conformance::expect_refused;

tune_options with_shapes(std::vector<std::string> shapes, const std::string& type = "bf16") {
    tune_options all;
    all.shapes = std::move(shapes);
    all.type = type;
    return all;
}

}  // namespace

TEST(tool_tune, measures_sixty_different_products_without_shapes) {
    auto problems = problems_of({});
    ASSERT_EQ(problems.size(), 60u);
    std::sort(problems.begin(), problems.end());
    EXPECT_EQ(std::unique(problems.begin(), problems.end()), problems.end());
}

TEST(tool_tune, takes_shapes_by_rows_columns_and_inner_size) {
    const auto layers = problems_of(with_shapes({"1x20x300", "4096x4096x4096"}, "f16"));
    ASSERT_EQ(layers.size(), 2u);
    EXPECT_EQ(layers[0], (gemm_problem{gemm_type::f16, true, 1, 20, 300}));
    tune_options plain = with_shapes({"7x8x9"}, "tf32");
    plain.plain_b = true;
    EXPECT_EQ(problems_of(plain).at(0), (gemm_problem{gemm_type::tf32, false, 7, 8, 9}));
}

TEST(tool_tune, refuses_what_is_no_shape_or_type) {
    for (const char* const shape : {"", "4", "4x4", "4x4x", "4x4x4x4", "4x4x0", "-4x4x4", "4 x4x4", "axbxc", "4x4x4 ",
                                    "4x4x99999999999999999999", "4x4x1048577"}) {
        expect_refused(errc::invalid_argument, {"ROWSxCOLUMNSxINNER"}, [&] { problems_of(with_shapes({shape})); });
    }
    expect_refused(errc::invalid_argument, {"f32", "tf32"}, [&] { problems_of(with_shapes({"1x1x1"}, "f32")); });
}

TEST(tool_tune, has_nothing_to_choose_on_a_cpu) {
    const temporary_directory target;
    const outcome came = run_tool({"tune", "--device", "cpu:0", "--table", target / "table.txt", "64x64x64"});
    EXPECT_EQ(came.exit_code, 1) << came;
    EXPECT_EQ(came.out, "");
    EXPECT_THAT(came.err, ::testing::HasSubstr("not a GPU"));
    EXPECT_THAT(snapshot(target), ::testing::IsEmpty());
}

TEST(tool_tune, refuses_products_that_cannot_be_measured) {
    runtime machine({.cuda = false});
    device& cpu = machine.find("cpu:0");
    const std::vector<gemm_problem> one{{gemm_type::bf16, true, 1, 1, 1}};
    expect_refused(errc::unsupported, {"cpu:0"}, [&] { tune_gemm(cpu, one, "nowhere"); });
}

}  // namespace sluice::app::testing::tune_tests
