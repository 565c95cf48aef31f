// SPDX-License-Identifier: Apache-2.0
// What becomes of items and timers when the service is closed, with and without a thread.
#include "runtime/completion_service.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace sluice::detail::completion_service_tests {
namespace {

using namespace std::chrono_literals;

struct counted_item final : work_item {
    counted_item() noexcept : work_item([](work_item& self) noexcept { ++static_cast<counted_item&>(self).runs; }) {}
    std::atomic<int> runs{0};
};

class closed_service : public testing::TestWithParam<completion_service::mode> {
protected:
    const timer::clock::time_point later = timer::clock::now() + 1h;
    completion_service service{GetParam()};
    counted_item item;
};

TEST_P(closed_service, runs_what_was_posted) {
    service.post(item);
    service.close();
    EXPECT_EQ(item.runs, 1);
    service.post(item);
    EXPECT_EQ(item.runs, 2);
}

TEST_P(closed_service, runs_the_items_of_all_timers) {
    timer due(later, item);
    service.set(due);
    service.close();
    EXPECT_EQ(item.runs, 1);
    EXPECT_FALSE(service.cancel_timer(due));
    timer another(later, item);
    service.set(another);
    EXPECT_EQ(item.runs, 2);
    EXPECT_FALSE(service.cancel_timer(another));
}

TEST_P(closed_service, does_not_run_the_item_of_a_cancelled_timer) {
    timer due(later, item);
    service.set(due);
    EXPECT_TRUE(service.cancel_timer(due));
    service.close();
    EXPECT_EQ(item.runs, 0);
}

INSTANTIATE_TEST_SUITE_P(each_mode, closed_service,
                         testing::Values(completion_service::mode::threaded, completion_service::mode::driven),
                         [](const auto& mode) {
                             return mode.param == completion_service::mode::driven ? "driven" : "threaded";
                         });

}  // namespace
}  // namespace sluice::detail::completion_service_tests
