// SPDX-License-Identifier: Apache-2.0
// The simulator and `then`: in every order of the device's work the second operation comes after the first, eagerly and
// compiled; without `then` the simulator finds the order that differs.
#include <gtest/gtest.h>

#include <string>

#include "sim/pipelines.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::then_tests {
namespace {

// Host code that appends a letter, after enough commands for a stream of its own.
auto say(std::shared_ptr<std::string> text, char letter) {
    return zip(zeros<float>({4}), zeros<float>({4}), zeros<float>({4}), zeros<float>({4}))
        .and_then([](auto x, auto, auto, auto) { return download(std::move(x)); })
        .and_then([=](auto landed) {
            return host_call([=](std::vector<float>) { text->push_back(letter); }, std::move(landed));
        });
}

std::vector<float> first_and_last(const std::string& text) {
    return {static_cast<float>(text.front()), static_cast<float>(text.back())};
}

template <typename Made>
exploration explored(Made made) {
    return explore(
        [&](scheduling_policy& pool) {
            const auto text = std::make_shared<std::string>();
            sync(made(text), pool);
            return first_and_last(*text);
        },
        {.schedules = 300});
}
template <typename Made>
exploration explored_compiled(Made made) {
    return explore(
        [&](scheduling_policy& pool) {
            const auto text = std::make_shared<std::string>();
            const auto fast = compile(pool, [&] { return made(text); });
            for (int i = 0; i < 2; ++i) sync(fast(), pool);
            return first_and_last(*text);
        },
        {.schedules = 300});
}

auto in_order(const std::shared_ptr<std::string>& text) {
    return say(text, 'a').then(zip(say(text, 'b'), say(text, 'c'))).then(say(text, 'd'));
}
auto side_by_side(const std::shared_ptr<std::string>& text) {
    return zip(say(text, 'a'), say(text, 'b'), say(text, 'c'));
}

TEST(then_in_the_simulator, the_order_holds_on_all_streams) {
    const exploration made = explored(in_order);
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(then_in_the_simulator, the_order_holds_in_a_graph) {
    const exploration made = explored_compiled(in_order);
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(then_in_the_simulator, without_it_another_order_is_found) {
    const exploration made = explored(side_by_side);
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::different_result) << *made.found;
}

// An event that the host asks for is reached, and an order that it gives is kept.
TEST(then_in_the_simulator, events_can_be_queried_and_waited_for) {
    const exploration made = explore(
        [](scheduling_policy& pool) {
            const stream a = pool.next(), b = pool.next();
            std::string text;
            a.host_call({"first"}, {[&text] { text.push_back('a'); }});
            const event after = event::record(a);
            b.order_after(after.point());
            b.host_call({"second"}, {[&text] { text.push_back('b'); }});
            const event end = event::record(b);
            while (!end.has_passed()) {
            }
            return first_and_last(text);
        },
        {.schedules = 300});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(then_in_the_simulator, a_kept_object_is_released) {
    const auto gone = std::make_shared<int>();
    const exploration made =
        explore([&](scheduling_policy& pool) { return sync(keep(gone, zeros<float>({4}).and_then(download)), pool); },
                {.schedules = 100});
    EXPECT_TRUE(made.is_clean()) << *made.found;
    EXPECT_EQ(gone.use_count(), 1);
}

}  // namespace
}  // namespace sluice::sim::then_tests
