// SPDX-License-Identifier: Apache-2.0
#include "serve/size_classes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "serve/batch.hpp"
#include "serve/support/fake_engine.hpp"
#include "serve/trial.hpp"
#include "sluice/serve/served_model.hpp"

namespace sluice::serve::size_classes_tests {
namespace {

using namespace std::chrono_literals;
using testing::bad_number;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::fake_model;
using testing::held;
using ::testing::IsEmpty;
using testing::row_of;
using testing::test_call;

TEST(size_classes, sizes_are_doubled_up_to_the_largest) {
    EXPECT_THAT(sizes_to_time(0), IsEmpty());
    EXPECT_THAT(sizes_to_time(1), ElementsAre(1));
    EXPECT_THAT(sizes_to_time(2), ElementsAre(1, 2));
    EXPECT_THAT(sizes_to_time(6), ElementsAre(1, 2, 4, 6));
    EXPECT_THAT(sizes_to_time(8), ElementsAre(1, 2, 4, 8));
}

TEST(size_classes, a_size_that_takes_hardly_longer_serves_the_sizes_below_it) {
    const std::vector<timed_size> timed{{1, 100ns}, {2, 101ns}, {4, 110ns}, {8, 140ns}, {16, 130ns}};
    const size_classes sizes(timed);
    EXPECT_THAT(sizes.padded(), ElementsAre(4, 16));
    for (const std::size_t same : {0U, 1U, 2U, 4U, 5U, 7U, 8U, 16U, 17U, 1000U}) EXPECT_EQ(sizes.rows_for(same), same);
    EXPECT_EQ(sizes.rows_for(3), 4U);
    for (const std::size_t rows : {9U, 12U, 15U}) EXPECT_EQ(sizes.rows_for(rows), 16U);
    EXPECT_EQ(size_classes().rows_for(3), 3U);
}

// Each batch takes the same time, as on a GPU, or a time for each row.
class slow_model final : public fake_model {
public:
    slow_model(std::chrono::microseconds of_batch, std::chrono::microseconds of_row)
        : of_batch_(of_batch), of_row_(of_row) {}
    bool prefers_few_sizes() const noexcept override { return true; }
    std::vector<nn::any_tensor> run(std::vector<nn::any_tensor> inputs) const override {
        std::this_thread::sleep_for(of_batch_ + of_row_ * inputs.front().shape().front());
        return fake_model::run(std::move(inputs));
    }

private:
    std::chrono::microseconds of_batch_, of_row_;
};

// Times are real, so that a machine with other work may need some attempts.
std::shared_ptr<served_model> padding_model(const std::shared_ptr<fake_model>& fake) {
    for (int attempt = 0; attempt < 50; ++attempt) {
        auto made = served_model::make("m", 1, fake, {.max_batch = 8, .caller_thread_us = 0});
        if (made->padded_sizes() == std::vector<std::size_t>{4, 8}) return made;
    }
    ADD_FAILURE() << "in no trial the times were equal";
    return nullptr;
}

TEST(size_classes, batches_are_padded_and_each_request_gets_its_rows) {
    const auto fake = std::make_shared<slow_model>(5ms, 0us);
    const auto model = padding_model(fake);
    ASSERT_TRUE(model);
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*fake);
        model->submit(calls.emplace_back(row_of(1)));
        fake->wait_until_running();
        for (int i = 2; i <= 6; ++i) model->submit(calls.emplace_back(row_of(static_cast<float>(i))));
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const float y = 2 * static_cast<float>(i + 1);
        EXPECT_THAT(calls[i]->get(), ElementsAre(y, y));
    }
    const auto of_three =
        std::make_shared<test_call>(std::vector<float>{1, 2, 3, 4, 5, 6}, std::vector<std::size_t>{3, 2});
    model->submit(of_three);
    EXPECT_THAT(of_three->get(), ElementsAre(2, 4, 6, 8, 10, 12));
    const auto of_none = std::make_shared<test_call>(std::vector<float>{}, std::vector<std::size_t>{0, 2});
    model->submit(of_none);
    EXPECT_THAT(of_none->get(), IsEmpty());
    const auto of_nine = std::make_shared<test_call>(std::vector<float>(18, 1.F), std::vector<std::size_t>{9, 2});
    model->submit(of_nine);
    EXPECT_THAT(of_nine->get(), Each(2));
    EXPECT_THAT(fake->batches(), ElementsAre(1, 8, 4, 0, 9));
    model->close();
    EXPECT_EQ(model->statistics().rows, 1U + 5 + 3 + 0 + 9);  // without those that were added
}

// Memory that nothing has written may hold any number, also one with which a network computes for ever or fails.
TEST(size_classes, rows_that_are_added_repeat_the_last_one) {
    const auto two = std::make_shared<test_call>(std::vector<float>{1, 2, 3, 4}, std::vector<std::size_t>{2, 2});
    const auto one = std::make_shared<test_call>(std::vector<float>{5, 6}, std::vector<std::size_t>{1, 2});
    const std::vector<waiting_call> batch{{.call = two, .since = {}, .rows = 2}, {.call = one, .since = {}, .rows = 1}};
    ASSERT_TRUE(can_pad(batch));
    const std::vector<nn::any_tensor> joined = join(batch, 5);
    ASSERT_EQ(joined.size(), 1U);
    EXPECT_THAT(joined[0].shape(), ElementsAre(5, 2));
    EXPECT_THAT(joined[0].values<float>(), ElementsAre(1, 2, 3, 4, 5, 6, 5, 6, 5, 6));
}

TEST(size_classes, a_request_that_fails_in_a_padded_batch_fails_alone) {
    const auto fake = std::make_shared<slow_model>(5ms, 0us);
    const auto model = padding_model(fake);
    ASSERT_TRUE(model);
    std::vector<std::shared_ptr<test_call>> calls;
    {
        const held gate(*fake);
        model->submit(calls.emplace_back(row_of(1)));
        fake->wait_until_running();
        for (const float value : {2.F, bad_number, 4.F}) model->submit(calls.emplace_back(row_of(value)));
    }
    EXPECT_THAT(calls[1]->get(), ElementsAre(4, 4));
    EXPECT_THROW(calls[2]->get(), refusal);
    EXPECT_THAT(calls[3]->get(), ElementsAre(8, 8));
}

TEST(size_classes, a_model_that_takes_a_time_for_each_row_is_not_padded) {
    const auto fake = std::make_shared<slow_model>(0us, 1ms);
    const auto model = served_model::make("m", 1, fake, {.max_batch = 8});
    EXPECT_THAT(model->padded_sizes(), IsEmpty());
}

TEST(size_classes, sizes_that_take_long_are_not_timed) {
    const slow_model model(1ms, 6ms);
    const std::vector<timed_size> timed = time_sizes(model, 64);
    ASSERT_LE(timed.size(), 2U);  // of 1 and 2 rows; 4 take 25 ms
}

}  // namespace
}  // namespace sluice::serve::size_classes_tests
