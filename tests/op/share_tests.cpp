// SPDX-License-Identifier: Apache-2.0
// share and unzip: which thread submits, which threads wait, and what each user gets when something throws.
#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::share_tests {
namespace {

using testing::HasSubstr;

class shared_work : public testing::Test {
protected:
    template <typename Op>
    std::string failure_of(Op op) {
        try {
            sync(std::move(op), pool);
            return "none";
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }

    runtime owner{{.cpu_workers = 2, .cuda = false}};
    round_robin pool{owner.default_device(), 2};
};

// A value whose n-th move throws. After a move it is empty.
class moody {
public:
    explicit moody(int number) : number_(number) {}
    moody(moody&& other) : number_(other.number_) {
        if (--moves_left == 0) throw std::runtime_error("moved badly");
        other.number_ = -1;
    }
    int number() const { return number_; }

    static inline std::atomic<int> moves_left{-1};

private:
    int number_;
};

TEST_F(shared_work, whichever_move_of_the_value_throws_no_user_gets_an_empty_one) {
    bool threw = true;
    for (int n = 1; threw; ++n) {
        moody::moves_left = -1;
        auto made = share(value(moody(7)));
        moody::moves_left = n;
        const auto look = [](const shared<moody>& it) { EXPECT_EQ(it->number(), 7); };
        const std::string first = failure_of(share_operation(made).transform(look));
        const std::string second = failure_of(std::move(made).transform(look));
        EXPECT_EQ(first, second) << n;
        threw = first != "none";
        ASSERT_LT(n, 20);
    }
}

TEST_F(shared_work, a_use_by_its_own_function_is_refused) {
    std::optional<share_operation<any_operation<shared<int>>>> itself;
    itself.emplace(any_operation<shared<int>>(value(1).and_then([&](int) {
        return any_operation<shared<int>>(
            share_operation(*itself).transform([](const shared<shared<int>>& inner) { return *inner; }));
    })));
    EXPECT_THAT(failure_of(share_operation(*itself)), HasSubstr("used while it is submitted"));
    EXPECT_THAT(failure_of(share_operation(*itself)), HasSubstr("used while it is submitted"));
}

TEST_F(shared_work, threads_that_come_later_wait_for_the_one_that_submits) {
    constexpr int threads = 4;
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> runs = 0;
        std::barrier together(threads);
        auto made = share(value(5).transform([&](int x) {
            ++runs;
            std::this_thread::yield();
            return x;
        }));
        std::vector<std::jthread> all;
        for (int i = 0; i < threads; ++i) {
            all.emplace_back([&, own = made]() mutable {
                together.arrive_and_wait();
                EXPECT_EQ(*sync(std::move(own), pool), 5);
            });
        }
        all.clear();
        EXPECT_EQ(runs, 1);
    }
}

// Two shared operations use each other, and two threads submit them, one each.
TEST_F(shared_work, two_that_use_each_other_from_two_threads_are_refused) {
    using number = any_operation<int>;
    std::optional<share_operation<number>> first, second;
    std::barrier both_run(2);
    const auto user_of = [&](std::optional<share_operation<number>>& other) {
        return number(value(1).and_then([&](int) {
            both_run.arrive_and_wait();
            return number(share_operation(*other).transform([](const shared<int>& x) { return *x; }));
        }));
    };
    first.emplace(user_of(second));
    second.emplace(user_of(first));
    std::string failures[2];
    {
        const std::jthread one([&] { failures[0] = failure_of(share_operation(*first)); });
        const std::jthread two([&] { failures[1] = failure_of(share_operation(*second)); });
    }
    for (const std::string& each : failures) EXPECT_THAT(each, HasSubstr("used while it is submitted"));
}

}  // namespace
}  // namespace sluice::share_tests
