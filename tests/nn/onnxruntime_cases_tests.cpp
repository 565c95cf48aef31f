// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft give what ONNX Runtime gives: networks that tools/onnxruntime_cases.py has written, with
// inputs and outputs as constants. SLUICE_ONNXRUNTIME_CASES names another folder of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/small_models.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::onnxruntime_cases_tests {
namespace {

std::vector<std::filesystem::path> cases() {
    const char* const other = std::getenv("SLUICE_ONNXRUNTIME_CASES");
    std::vector<std::filesystem::path> found;
    for (const auto& each : std::filesystem::directory_iterator(
             other != nullptr ? other : SLUICE_SOURCE_DIR "/tests/nn/onnxruntime_cases"))
        found.push_back(each.path());
    std::ranges::sort(found);
    return found;
}

int integer_at(const any_tensor& x, std::size_t i) {
    return x.type() == io::dtype::i8 ? int{x.values<std::int8_t>()[i]} : int{x.values<std::uint8_t>()[i]};
}

// An integer may be the next one where a number is as good as between two; of QLinearSoftmax, which ONNX Runtime
// computes by a table of integers, any.
void expect_close(const any_tensor& made, const any_tensor& expected, float tolerance, bool has_table) {
    ASSERT_EQ(made.type(), expected.type());
    ASSERT_EQ(made.shape(), expected.shape());
    std::size_t different = 0;
    for (std::size_t i = 0; i < made.elements(); ++i) {
        if (made.type() == io::dtype::f32) {
            const float number = expected.values<float>()[i];
            ASSERT_NEAR(made.values<float>()[i], number, tolerance * (1 + std::fabs(number))) << "element " << i;
        } else {
            ASSERT_LE(std::abs(integer_at(made, i) - integer_at(expected, i)), 1) << "element " << i;
            different += integer_at(made, i) != integer_at(expected, i);
        }
    }
    EXPECT_LE(different, has_table ? made.elements() : made.elements() / 20 + 1);
}

TEST(onnxruntime_cases, give_what_onnxruntime_gives) {
    runtime machine{runtime_options{.cpu_devices = 1, .cuda = false}};
    single_stream on(machine.find("cpu:0"));
    std::size_t tried = 0;
    for (const auto& path : cases()) {
        SCOPED_TRACE(path.filename().string());
        const model from = load_onnx(path);
        std::vector<any_tensor> inputs;
        for (const value_info& each : from.body.inputs)
            inputs.push_back(any_tensor(from.body.constants.at("given:" + each.name)));
        const std::vector<any_tensor> made = sync(sync(make_network(from), on).run(inputs), on);
        const std::string name = path.filename().string();
        // A state that is as good as between two integers may become the other one.
        const float tolerance = name.starts_with("dynamic_lstm") ? 1e-3f : 2e-5f;
        for (std::size_t i = 0; i < made.size(); ++i) {
            const any_tensor expected(from.body.constants.at("expected:" + from.body.outputs[i].name));
            expect_close(made[i], expected, tolerance, name.starts_with("qlinear_softmax"));
        }
        ++tried;
    }
    EXPECT_GE(tried, 25u);
}

// What a function does not know is refused when the file is read, by name.
TEST(onnxruntime_cases, refuse_what_their_functions_do_not_know) {
    const auto path = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/nn/data/com_microsoft_refused.onnx";
    try {
        static_cast<void>(load_onnx(path));
        FAIL() << "it was read";
    } catch (const file_error& refused) {
        EXPECT_EQ(refused.code(), errc::unsupported);
        EXPECT_NE(std::string(refused.what()).find("has its channels last"), std::string::npos) << refused.what();
    }
}

}  // namespace
}  // namespace sluice::nn::onnxruntime_cases_tests
