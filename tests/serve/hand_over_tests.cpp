// SPDX-License-Identifier: Apache-2.0
#include "serve/http/hand_over.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::serve::hand_over_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct parcel {
    explicit parcel(int its) : number(its) {}

    int number;
    hand_over<parcel>::link link;
};

bool push(hand_over<parcel>& to, const std::shared_ptr<parcel>& what) { return to.push(what->link, what); }

std::vector<int> numbers_of(hand_over<parcel>& from) {
    std::vector<int> all;
    from.take([&](const parcel& each) { all.push_back(each.number); });
    return all;
}

TEST(hand_over, gives_objects_in_their_order_and_says_which_is_the_first) {
    hand_over<parcel> list;
    EXPECT_THAT(numbers_of(list), IsEmpty());
    EXPECT_TRUE(push(list, std::make_shared<parcel>(1)));
    EXPECT_FALSE(push(list, std::make_shared<parcel>(2)));
    EXPECT_FALSE(push(list, std::make_shared<parcel>(3)));
    EXPECT_THAT(numbers_of(list), ElementsAre(1, 2, 3));
    EXPECT_TRUE(push(list, std::make_shared<parcel>(4)));
    EXPECT_THAT(numbers_of(list), ElementsAre(4));
}

TEST(hand_over, keeps_an_object_until_it_is_taken) {
    hand_over<parcel> list;
    auto one = std::make_shared<parcel>(1);
    const std::weak_ptr<parcel> watched = one;
    push(list, one);
    one.reset();
    EXPECT_FALSE(watched.expired());
    list.take([&](parcel&) { EXPECT_FALSE(watched.expired()); });
    EXPECT_TRUE(watched.expired());
}

TEST(hand_over, an_object_that_is_taken_may_be_pushed_again) {
    hand_over<parcel> list;
    const auto one = std::make_shared<parcel>(1), two = std::make_shared<parcel>(2);
    push(list, one);
    push(list, two);
    std::vector<int> taken;
    list.take([&](const parcel& each) {
        taken.push_back(each.number);
        if (each.number == 1) {
            EXPECT_TRUE(push(list, one));
        }
    });
    EXPECT_THAT(taken, ElementsAre(1, 2));
    EXPECT_THAT(numbers_of(list), ElementsAre(1));
}

TEST(hand_over, drops_what_is_there_at_the_end_and_what_comes_later) {
    hand_over<parcel> list;
    auto one = std::make_shared<parcel>(1), two = std::make_shared<parcel>(2);
    const std::weak_ptr<parcel> first = one, second = two;
    push(list, one);
    one.reset();
    list.close();
    EXPECT_TRUE(first.expired());
    EXPECT_FALSE(push(list, two));
    two.reset();
    EXPECT_TRUE(second.expired());
    list.close();
}

// Each thread has one object, and pushes it again when it was taken.
TEST(hand_over, loses_none_of_several_threads) {
    constexpr int threads = 3, times = 2'000;
    struct counted : parcel {
        using parcel::parcel;
        std::atomic<int> taken{0};
    };
    hand_over<parcel> list;
    std::atomic<int> wakes{0};
    std::vector<std::shared_ptr<counted>> objects;
    for (int i = 0; i < threads; ++i) objects.push_back(std::make_shared<counted>(i));
    std::vector<std::thread> running;
    for (const auto& each : objects) {
        running.emplace_back([&, one = each] {
            for (int i = 0; i < times; ++i) {
                while (one->taken != i) std::this_thread::yield();
                if (push(list, one)) ++wakes;
            }
        });
    }
    int taken = 0, takes = 0;
    while (taken < threads * times) {
        const int before = taken;
        list.take([&](const parcel& each) {
            ++taken;
            ++objects[static_cast<std::size_t>(each.number)]->taken;
        });
        if (taken == before)
            std::this_thread::yield();
        else
            ++takes;
    }
    for (std::thread& each : running) each.join();
    EXPECT_EQ(wakes, takes);  // a wake-up for each time that there was something
    for (const auto& each : objects) EXPECT_EQ(each->taken, times);
}

}  // namespace
}  // namespace sluice::serve::hand_over_tests
