// SPDX-License-Identifier: Apache-2.0
// What a runtime's options promise.
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"

namespace sluice::conformance::runtime_option_tests {
namespace {

CONFORMANCE_SUITE(runtime_options_tests);

}  // namespace

TEST_P(runtime_options_tests, each_command_is_waited_for_where_that_is_asked_for) {
    runtime_options all = GetParam().options;
    all.blocks_each_command = true;
    runtime blocking(all);
    device& there = blocking.find(GetParam().device);
    round_robin pool(there, 2);
    bool ran = false;
    auto submitted = spawn(host_call([&ran] {
                               std::this_thread::sleep_for(std::chrono::milliseconds(2));
                               ran = true;
                           }),
                           pool);
    EXPECT_TRUE(ran);
    std::move(submitted).get();
    const stream home = pool.next();
    for (int i = 0; i < 20; ++i) {
        auto x = submit_to(home, full<unsigned>({1000}, 1));
        step_on(home, x, 1, slow());
        ASSERT_EQ(home.passed(), home.issued());
    }
    // Work that has several streams, coroutines that a worker resumes, and graphs run as ever.
    EXPECT_EQ(sluice::sync(zip(upload(std::vector<unsigned>{1, 2}), zeros<unsigned>({2})).and_then([](auto x, auto) {
                  return step(std::move(x), 0).and_then(download);
              }),
                           pool),
              (std::vector<unsigned>{3, 6}));
    const auto fast = compile(
        there, [](tensor<unsigned> x) { return step(std::move(x), 0).and_then(download); }, host_input<unsigned>({2}));
    EXPECT_EQ(sluice::sync(fast(std::vector<unsigned>{1, 2}), pool), (std::vector<unsigned>{3, 6}));
    auto failing = spawn(host_call([] { throw std::runtime_error("on purpose"); }), pool);
    EXPECT_THROW(std::move(failing).get(), std::runtime_error);
}

TEST_P(runtime_options_tests, a_device_has_a_wait_mode) {
    for (const wait_mode mode : {wait_mode::spin, wait_mode::yield, wait_mode::block}) {
        on.set_default_wait_mode(mode);
        EXPECT_EQ(on.default_wait_mode(), mode);
        single_stream pool(on);
        EXPECT_EQ(sluice::sync(full<unsigned>({2}, 3).and_then(download), pool), (std::vector<unsigned>{3, 3}));
    }
}

TEST_P(runtime_options_tests, gpus_that_do_not_exist_are_refused) {
    expect_refused(errc::device_not_found, {"gpus"}, [] { const runtime with({.gpus = {99}}); });
    expect_refused(errc::device_not_found, {"gpus"}, [] { const runtime with({.gpus = {-1}}); });
    expect_refused(errc::invalid_argument, {"gpus", "cuda"}, [] { const runtime with({.cuda = false, .gpus = {0}}); });
}

TEST_P(runtime_options_tests, gpus_can_be_chosen) {
    if (on.kind() != device_kind::cuda) GTEST_SKIP() << "needs a GPU";
    runtime with({.gpus = {0}});
    single_stream pool(with.find("cuda:0"));
    EXPECT_EQ(sluice::sync(full<unsigned>({2}, 3).and_then(download), pool), (std::vector<unsigned>{3, 3}));
    expect_refused(errc::device_not_found, {"cuda:1"}, [&] { with.find("cuda:1"); });
    expect_refused(errc::invalid_argument, {"gpus", "0", "twice"}, [] { const runtime again({.gpus = {0, 0}}); });
}

}  // namespace sluice::conformance::runtime_option_tests
