// SPDX-License-Identifier: Apache-2.0
// then: one operation after another without data between them, on every stream and in graphs.
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"

namespace sluice::conformance::then_tests {
namespace {

CONFORMANCE_SUITE(then_tests);

// Host code that appends a letter: the order in which the device comes to it.
auto say(std::string* text, char letter) {
    return host_call([text, letter] { text->push_back(letter); });
}
// The same after enough commands for a stream of its own.
auto say_on_a_branch(std::string* text, char letter) {
    return zeros<unsigned>({4})
        .and_then([](auto x) { return step(std::move(x), 0); })
        .and_then([](auto x) { return step(std::move(x), 0); })
        .and_then([](auto x) { return step(std::move(x), 0); })
        .and_then(download)
        .and_then([=](auto landed) {
            return host_call([=](std::vector<unsigned>) { text->push_back(letter); }, std::move(landed));
        });
}

}  // namespace

TEST_P(then_tests, the_second_runs_after_the_first) {
    for (int round = 0; round < 20; ++round) {
        single_stream pool(on);
        std::string text;
        sync(say(&text, 'a').then(say(&text, 'b')).then(say(&text, 'c')), pool);
        ASSERT_EQ(text.substr(text.size() - 3), "abc");
    }
}

TEST_P(then_tests, the_output_is_that_of_the_second) {
    single_stream pool(on);
    EXPECT_EQ(sync(full<unsigned>({2}, 1).then(full<unsigned>({3}, 2).and_then(download)), pool),
              (std::vector<unsigned>{2, 2, 2}));
}

// One before two, two before one, on four streams: all that the branches do comes between.
TEST_P(then_tests, branches_come_after_and_before) {
    round_robin pool(on, 4);
    for (int round = 0; round < 20; ++round) {
        std::string text;
        text.reserve(100);
        sync(say_on_a_branch(&text, 'a')
                 .then(zip(say(&text, 'b'), value(0).and_then([&](int) { return say(&text, 'b'); })))
                 .then(say_on_a_branch(&text, 'd')),
             pool);
        ASSERT_EQ(text.substr(text.size() - 4), "abbd");
    }
}

// The held stream is that of the first; the second has streams of its own, and nothing of it runs.
TEST_P(then_tests, a_branch_on_another_stream_waits) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    round_robin pool(on, 3);
    const stream home = pool.next();
    std::atomic<int> ran{0};
    const auto count = [&ran](auto landed) {
        return host_call([&ran](std::vector<unsigned>) { ++ran; }, std::move(landed));
    };
    const auto branch = [&] {
        return zeros<unsigned>({4})
            .and_then([](auto x) { return step(std::move(x), 0); })
            .and_then([](auto x) { return step(std::move(x), 0); })
            .and_then([](auto x) { return step(std::move(x), 0); })
            .and_then(download)
            .and_then(count);
    };
    sluice::sync(zip(branch(), branch(), branch()), pool);  // loads kernels, fills pools
    ran = 0;
    execution_context context(home, &pool);
    gate closed(home);
    zeros<unsigned>({4}).then(zip(branch(), branch(), branch())).submit(context);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(ran, 0);
    closed.open();
    context.submission()->await_completion({});
    EXPECT_EQ(ran, 3);
}

// What another stream does is not waited for: the second part comes after the first one alone.
TEST_P(then_tests, what_is_beside_it_is_not_ordered) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    round_robin pool(on, 2);
    const stream a = pool.next(), b = pool.next();
    const auto work = [] {
        return full<unsigned>({4}, 1).then(
            full<unsigned>({4}, 2).and_then([](auto x) { return step(std::move(x), 0); }));
    };
    for (const stream each : {a, b}) sync_on(work().and_then(download), each);  // loads kernels, fills pools
    execution_context context(a, &pool);
    gate closed(b);
    static_cast<void>(full<unsigned>({4}, 1).submit(context.branch()));
    static_cast<void>(work().submit(context));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (a.passed() < a.issued() && std::chrono::steady_clock::now() < end) a.poll();
    EXPECT_EQ(a.passed(), a.issued());
    closed.open();
    context.submission()->await_completion({});
}

TEST_P(then_tests, the_second_runs_although_the_first_fails) {
    single_stream pool(on);
    std::atomic<bool> ran{false};
    auto failing = host_call([] { throw std::runtime_error("first"); });
    EXPECT_THROW(sluice::sync(std::move(failing).then(host_call([&ran] { ran = true; })), pool), std::runtime_error);
    EXPECT_TRUE(ran);
}

TEST_P(then_tests, a_submission_that_throws_submits_no_second) {
    single_stream pool(on);
    bool submitted = false;
    auto failing = value(0).and_then([](int) -> decltype(value(1)) { throw std::runtime_error("first"); });
    EXPECT_THROW(sluice::sync(std::move(failing).then(with_context([&](execution_context&) {
                     submitted = true;
                     return value(2);
                 })),
                              pool),
                 std::runtime_error);
    EXPECT_FALSE(submitted);
}

// A waiter waits for what the first part has submitted before it threw.
TEST_P(then_tests, a_submission_that_throws_midway_is_waited_for) {
    single_stream pool(on);
    std::atomic<bool> ran{false};
    auto failing = host_call([&ran] {
                       std::this_thread::sleep_for(std::chrono::milliseconds(20));
                       ran = true;
                   }).and_then([](auto&&...) -> decltype(value(1)) { throw std::runtime_error("midway"); });
    EXPECT_THROW(sluice::sync(std::move(failing).then(value(2)), pool), std::runtime_error);
    EXPECT_TRUE(ran);
}

// Shared work that the second part is the first to use comes after the first part, too.
TEST_P(then_tests, shared_work_inside_is_in_order) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    round_robin pool(on, 3);
    const stream home = pool.next();
    std::atomic<int> ran{0};
    const auto branch = [&] {
        return zip(zeros<unsigned>({4}), zeros<unsigned>({4}), zeros<unsigned>({4}), zeros<unsigned>({4}))
            .and_then([](auto x, auto, auto, auto) { return download(std::move(x)); })
            .and_then(
                [&](auto landed) { return host_call([&ran](std::vector<unsigned>) { ++ran; }, std::move(landed)); });
    };
    sluice::sync(zip(branch(), branch()), pool);  // loads kernels, fills pools
    ran = 0;
    execution_context context(home, &pool);
    gate closed(home);
    zeros<unsigned>({4}).then(share(zip(branch(), branch()))).submit(context);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(ran, 0);
    closed.open();
    context.submission()->await_completion({});
    EXPECT_EQ(ran, 2);
}

// The host decides in between: the second is submitted when the first has recovered.
TEST_P(then_tests, sources_may_recover) {
    single_stream pool(on);
    std::string text;
    auto recovers = host_call([&text] {
                        text.push_back('a');
                        throw std::runtime_error("first");
                    }).or_else([&text](const std::exception_ptr&) { return say(&text, 'b'); });
    sluice::sync(std::move(recovers).then(say(&text, 'c')), pool);
    EXPECT_EQ(text, "abc");
}

TEST_P(then_tests, a_chain_of_a_thousand) {
    single_stream pool(on);
    any_operation<std::tuple<>> all(host_call([] {}));
    int ran = 0;
    for (int i = 0; i < 1000; ++i) all = any_operation<std::tuple<>>(std::move(all).then(host_call([&ran] { ++ran; })));
    sluice::sync(std::move(all), pool);
    EXPECT_EQ(ran, 1000);
}

}  // namespace sluice::conformance::then_tests
