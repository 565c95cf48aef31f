// SPDX-License-Identifier: Apache-2.0
#include "serve/network_replicas.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "serve/support/fake_engine.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve::network_replicas_tests {
namespace {

using testing::bad_number;
using ::testing::ElementsAre;
using testing::fake_model;
using testing::held;
using ::testing::IsEmpty;

// On a device that the test breaks.
class breakable final : public fake_model {
public:
    breakable(std::string device, float factor) : fake_model(factor), device_(std::move(device)) {}
    std::string device_name() const override { return device_; }
    bool is_lost() const noexcept override { return lost; }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        std::vector<nn::any_tensor> made = fake_model::run(std::move(inputs));
        if (lost) throw error(errc::device_failed, device_ + " is lost");
        return made;
    }

    std::atomic<bool> lost{false};

private:
    std::string device_;
};

struct network_replicas_on_two : ::testing::Test {
    // The factor says which device has computed.
    std::shared_ptr<breakable> first = std::make_shared<breakable>("gpu:0", 2.F);
    std::shared_ptr<breakable> second = std::make_shared<breakable>("gpu:1", 3.F);
    network_replicas model{{first, second}};

    float ask(float value = 1) const {
        const std::vector<nn::any_tensor> made = model.run({nn::any_tensor(std::vector<float>{value, value}, {1, 2})});
        return made.front().values<float>().front();
    }
};

TEST_F(network_replicas_on_two, a_batch_goes_to_the_device_with_the_fewest) {
    EXPECT_EQ(model.device_name(), "gpu:0, gpu:1");
    EXPECT_EQ(ask(), 2.F);
    EXPECT_EQ(ask(), 2.F);
    std::future<float> on_first;
    {
        const held gate(*first);
        on_first = std::async(std::launch::async, [&] { return ask(); });
        first->wait_until_running();
        EXPECT_EQ(ask(), 3.F);
    }
    EXPECT_EQ(on_first.get(), 2.F);
    EXPECT_EQ(ask(), 2.F);
}

TEST_F(network_replicas_on_two, a_batch_of_a_device_that_fails_is_computed_on_the_other) {
    std::future<float> asked;
    {
        const held gate(*first);
        asked = std::async(std::launch::async, [&] { return ask(); });
        first->wait_until_running();
        first->lost = true;
    }
    EXPECT_EQ(asked.get(), 3.F);
    EXPECT_FALSE(model.is_lost());
    EXPECT_THAT(model.lost_devices(), ElementsAre("gpu:0"));
    for (int i = 0; i < 10; ++i) EXPECT_EQ(ask(), 3.F);
    second->lost = true;
    EXPECT_TRUE(model.is_lost());
    EXPECT_THAT(model.lost_devices(), ElementsAre("gpu:0", "gpu:1"));
    try {
        ask();
        FAIL() << "it answered";
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::device_failed);
    }
}

TEST_F(network_replicas_on_two, what_is_wrong_with_a_request_is_not_tried_again) {
    second->hold();
    second->open();
    EXPECT_THROW(ask(bad_number), error);
    EXPECT_THAT(second->batches(), IsEmpty());
    EXPECT_THAT(model.lost_devices(), IsEmpty());
    EXPECT_EQ(ask(), 2.F);
}

TEST(network_replicas, there_is_at_least_one) { EXPECT_THROW(network_replicas({}), error); }

}  // namespace
}  // namespace sluice::serve::network_replicas_tests
