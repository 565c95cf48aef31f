// SPDX-License-Identifier: Apache-2.0
// The networks of the repository in each precision: as accurate on the digits as in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sluice/io/npy.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/precision_choice.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::precision_digits_tests {
namespace {

const std::filesystem::path root = SLUICE_SOURCE_DIR;

std::size_t correct(const any_tensor& logits, const std::vector<float>& labels) {
    std::size_t count = 0;
    for (std::size_t row = 0; row < labels.size(); ++row) {
        const auto numbers = logits.values<float>().subspan(row * 10, 10);
        count += std::ranges::max_element(numbers) - numbers.begin() == static_cast<std::ptrdiff_t>(labels[row]);
    }
    return count;
}

}  // namespace

TEST(precision_digits, are_recognised_in_each_precision) {
    runtime machine({.cuda = false});
    round_robin pool(machine.find("cpu:0"), 2);
    std::vector<float> pixels(450 * 64), labels(450);
    io::npy_file(root / "data/digits_inputs.npy").view().read_rows(0, pixels);
    io::npy_file(root / "data/digits_labels.npy").view().read_rows(0, labels);
    const any_tensor rows(pixels, {450, 64});
    for (const char* const name : {"digits.onnx", "digits_cnn.onnx"}) {
        const model from = load_onnx(root / "models" / name);
        const auto outputs_in = [&](precision what) {
            const network made = sync(make_network(from, {.precision = what}), pool);
            EXPECT_EQ(made.rounding().rounded, what == precision::f32 ? 0u : 3u);
            EXPECT_TRUE(made.rounding().kept.empty());
            return sync(made.run({rows}), pool);
        };
        const std::vector<any_tensor> exact = outputs_in(precision::f32);
        const std::size_t of_f32 = correct(exact.at(0), labels);
        EXPECT_GE(of_f32, 441u);  // 98 %
        for (const auto& [what, bound] :
             {std::pair{precision::bf16, 0.005}, {precision::f16, 0.0005}, {precision::int8, 0.01}}) {
            SCOPED_TRACE(std::string(name) + " in " + std::string(to_string(what)));
            const std::vector<any_tensor> rounded = outputs_in(what);
            const output_difference difference = difference_of(exact, rounded);
            EXPECT_LE(difference.relative, bound);
            EXPECT_GT(difference.relative, 0);
            EXPECT_GE(difference.agreeing_rows, 448u);
            EXPECT_GE(correct(rounded.at(0), labels) + 2, of_f32);
        }
    }
}

}  // namespace sluice::nn::precision_digits_tests
