// SPDX-License-Identifier: Apache-2.0
// On a CPU device a resident network computes on the calling thread: what is tested here is which requests it gets, and
// what becomes of their numbers. tests/nn/resident_tests.cpp tests the kernel.
#include "serve/resident_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "serve/network_replicas.hpp"
#include "serve/support/npy_values.hpp"
#include "sluice/base/error.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/serve/network_engine.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve::resident_model_tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::npy_values;

const fs::path root = SLUICE_SOURCE_DIR;

// The digits, with a pause before each answer.
class slow_digits final : public loaded_model {
public:
    slow_digits(std::shared_ptr<const loaded_model> digits, std::chrono::microseconds pause)
        : digits_(std::move(digits)), pause_(pause) {}
    const std::vector<nn::value_info>& inputs() const noexcept override { return digits_->inputs(); }
    const std::vector<nn::value_info>& outputs() const noexcept override { return digits_->outputs(); }
    const nn::row_independence& rows() const noexcept override { return digits_->rows(); }
    std::string platform() const override { return digits_->platform(); }
    std::string device_name() const override { return digits_->device_name(); }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        ++runs;
        std::this_thread::sleep_for(pause_);
        return digits_->run(std::move(inputs));
    }

    mutable std::atomic<int> runs{0};

private:
    std::shared_ptr<const loaded_model> digits_;
    std::chrono::microseconds pause_;
};

struct resident_digits : ::testing::Test {
    fs::path file = root / "models/digits.safetensors";
    network_engine engine{{.device = "cpu"}};
    nn::model model = nn::load_safetensors(file);
    std::vector<float> rows = npy_values(root / "data/digits_inputs.npy");
    std::vector<float> wanted = npy_values(root / "data/digits_logits.npy");

    std::shared_ptr<slow_digits> network(std::chrono::microseconds pause = std::chrono::milliseconds(1)) {
        return std::make_shared<slow_digits>(engine.load({"digits", 1, file}, {}), pause);
    }
    std::shared_ptr<const loaded_model> resident(const std::shared_ptr<slow_digits>& network,
                                                 nn::precision precision = nn::precision::f32) {
        return make_resident(network, engine.default_device(), model, precision, {});
    }
    void expect_digits(const loaded_model& from, std::size_t count, float tolerance) const {
        const auto end = rows.begin() + static_cast<std::ptrdiff_t>(64 * count);
        const auto made = from.run({nn::any_tensor(std::vector(rows.begin(), end), {count, 64})});
        ASSERT_EQ(made.size(), 1U);
        ASSERT_EQ(made.front().shape(), (std::vector<std::size_t>{count, 10}));
        const auto logits = made.front().values<float>();
        for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], wanted[i], tolerance) << "at " << i;
    }
};

TEST_F(resident_digits, answers_up_to_eight_rows_where_it_is_faster) {
    for (const auto& [precision, tolerance] :
         {std::pair{nn::precision::f32, 1e-4F}, {nn::precision::f16, 0.05F}, {nn::precision::bf16, 0.5F}}) {
        const auto slow = network();
        const auto made = resident(slow, precision);
        EXPECT_THAT(made->how(), HasSubstr("up to 8 rows by a resident kernel in "));
        EXPECT_THAT(made->how(), HasSubstr(nn::to_string(precision)));
        slow->runs = 0;
        for (std::size_t count = 1; count <= 8; ++count) expect_digits(*made, count, tolerance);
        EXPECT_EQ(slow->runs, 0);
        expect_digits(*made, 9, 1e-4F);
        EXPECT_EQ(slow->runs, 1);
    }
}

// The kernel rounds between layers, and the network does not.
TEST_F(resident_digits, joins_no_more_rows_than_the_kernel_computes) {
    const auto exact = served_model::make("digits", 1, resident(network()), {});
    EXPECT_EQ(exact->max_batch(), 64U);
    const auto rounded = resident(network(), nn::precision::bf16);
    EXPECT_EQ(rounded->most_joined_rows(), 8U);
    EXPECT_EQ(network_replicas({network(), rounded}).most_joined_rows(), 8U);
    for (const model_config& config : {model_config{}, model_config{.max_batch = 32}}) {
        const auto served = served_model::make("digits", 1, rounded, config);
        EXPECT_EQ(served->max_batch(), 8U) << served->joins_because();
        EXPECT_THAT(served->joins_because(), HasSubstr("rounded in another way than alone"));
    }
}

TEST_F(resident_digits, leaves_what_does_not_fit_to_the_network) {
    const auto slow = network();
    const auto made = resident(slow);
    slow->runs = 0;
    EXPECT_THROW(made->run({nn::any_tensor(std::vector<float>(63), {1, 63})}), error);
    EXPECT_THROW(made->run({}), error);
    EXPECT_EQ(made->run({nn::any_tensor(std::vector<float>{}, {0, 64})}).front().shape(),
              (std::vector<std::size_t>{0, 10}));
    EXPECT_EQ(slow->runs, 3);
}

TEST_F(resident_digits, has_no_integers) {
    try {
        resident(network(), nn::precision::int8);
        FAIL() << "it is made";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("accepted with 'resident' are f32, bf16 and f16"));
    }
}

TEST_F(resident_digits, is_made_by_the_engine_where_the_configuration_says_so) {
    for (const auto& [precision, tolerance] : {std::pair{nn::precision::f32, 1e-4F}, {nn::precision::bf16, 0.5F}}) {
        const auto made = engine.load({"digits", 1, file}, {.precision = precision, .resident = true});
        EXPECT_THAT(made->how(), HasSubstr("resident"));
        for (const std::size_t count : {1U, 5U, 20U}) expect_digits(*made, count, tolerance);
    }
}

TEST_F(resident_digits, refuses_networks_that_are_no_perceptrons) {
    if (!nn::onnx_supported()) GTEST_SKIP() << "built without ONNX";
    try {
        engine.load({"cnn", 1, root / "models/digits_cnn.onnx"}, {.resident = true});
        FAIL() << "it is loaded";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("Conv"));
    }
}

}  // namespace
}  // namespace sluice::serve::resident_model_tests
