// SPDX-License-Identifier: Apache-2.0
// Pinned tensors, which the host and the device share.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"

namespace sluice::conformance::pinned_tensor_tests {
namespace {

CONFORMANCE_SUITE(pinned_tensors);

TEST_P(pinned_tensors, begin_with_zeros_and_keep_what_is_written) {
    round_robin pool(on, 2);
    const pinned_tensor<int> x(on, {2, 3});
    EXPECT_EQ(x.read(), std::vector<int>(6));
    const std::vector<int> values{1, 2, 3, 4, 5, 6};
    x.write(values);
    EXPECT_EQ(x.read(), values);
    EXPECT_EQ(sync(x.load().and_then(download), pool), values);
    EXPECT_EQ(x.change([](std::span<int> all) {
        all[0] = 10;
        return std::accumulate(all.begin(), all.end(), 0);
    }),
              30);
    EXPECT_EQ(sync(x.load().and_then(download), pool)[0], 10);
    EXPECT_EQ(x.shape(), shape({2, 3}));
    EXPECT_EQ(x.size_bytes(), 24u);
}

TEST_P(pinned_tensors, take_what_operations_store) {
    round_robin pool(on, 2);
    for (const std::size_t size : {0, 1, 1000, 300'000}) {
        SCOPED_TRACE(size);
        const pinned_tensor<float> x(on, {size});
        const std::vector<float> values = counting<float>(size);
        EXPECT_EQ(
            sync(upload(values).and_then([&](auto given) { return x.store(std::move(given)); }).and_then(download),
                 pool),
            values);
        EXPECT_EQ(x.read(), values);
        const shared_tensor<float> again = sluice::sync(share(upload(std::vector<float>(size, 2.f))), pool);
        static_cast<void>(sluice::sync(x.store(again), pool));
        EXPECT_EQ(x.read(), std::vector<float>(size, 2.f));
    }
}

TEST_P(pinned_tensors, are_read_after_the_commands_that_write_them) {
    round_robin pool(on, 4);
    const pinned_tensor<int> x(on, {50'000});
    for (int i = 1; i <= 20; ++i) {
        auto running =
            spawn(upload(std::vector<int>(50'000, i)).and_then([&](auto y) { return x.store(std::move(y)); }), pool);
        EXPECT_EQ(x.read(), std::vector<int>(50'000, i));
        auto loading = spawn(x.load().and_then(download), pool);
        x.write(std::vector<int>(50'000, -1));  // after the load
        EXPECT_EQ(std::move(loading).get(), std::vector<int>(50'000, i));
    }
}

TEST_P(pinned_tensors, are_parts_of_graphs) {
    round_robin pool(on, 2);
    const pinned_tensor<int> in(on, {4}), out(on, {4});
    const auto moves =
        compile(on, [=] { return in.load().and_then([=](tensor<int> x) { return out.store(std::move(x)); }); });
    for (int i = 0; i < 5; ++i) {
        in.write(std::vector<int>(4, i));
        auto running = spawn(moves(), pool);
        in.write(std::vector<int>(4, 100));
        EXPECT_EQ(out.read(), std::vector<int>(4, i));
    }
}

TEST_P(pinned_tensors, live_as_long_as_what_uses_them) {
    round_robin pool(on, 2);
    for (int i = 0; i < 10; ++i) {
        std::optional<pinned_tensor<int>> x(std::in_place, on, shape{10'000});
        x->write(std::vector<int>(10'000, i));
        auto running = spawn(x->load().and_then(download), pool);
        x.reset();
        const pinned_tensor<int> next(on, {10'000});  // may be the same block
        next.write(std::vector<int>(10'000, -1));
        EXPECT_EQ(std::move(running).get(), std::vector<int>(10'000, i));
    }
}

TEST_P(pinned_tensors, are_shared_by_threads) {
    round_robin pool(on, 4);
    constexpr std::size_t size = 5'000;
    const pinned_tensor<int> x(on, {size});
    const auto is_torn = [](const std::vector<int>& now) {
        return std::count(now.begin(), now.end(), now[0]) != static_cast<std::ptrdiff_t>(now.size());
    };
    std::thread host([&] {
        for (int i = 0; i < 100; ++i) x.write(std::vector<int>(size, i));
    });
    std::thread storing([&] {
        for (int i = 0; i < 100; ++i) {
            static_cast<void>(sluice::sync(
                upload(std::vector<int>(size, -i)).and_then([&](auto y) { return x.store(std::move(y)); }), pool));
        }
    });
    int torn = 0;
    for (int i = 0; i < 100; ++i) {
        torn += is_torn(x.read()) ? 1 : 0;
        torn += is_torn(sluice::sync(x.load().and_then(download), pool)) ? 1 : 0;
    }
    host.join();
    storing.join();
    EXPECT_EQ(torn, 0);
}

TEST_P(pinned_tensors, give_the_failure_of_the_command_that_should_have_written_them) {
    round_robin pool(on, 1);
    const pinned_tensor<int> x(on, {1});
    const auto fails = [&] {
        return with_context([x](execution_context& context) {
            const std::array accesses{memory_access{x.memory(), access_mode::write}};
            const int nothing = 0;
            context.stream().library_call(
                {"picky", accesses},
                {[](const native_stream&, const void*) { throw std::runtime_error("mine"); }, &nothing, sizeof(int)});
        });
    };
    EXPECT_THROW(sluice::sync(fails(), pool), std::runtime_error);
    EXPECT_THROW(x.read(), std::runtime_error);
    EXPECT_THROW(x.change([](std::span<int>) {}), std::runtime_error);
    x.write(std::vector<int>{5});
    EXPECT_EQ(x.read(), std::vector<int>{5});
    EXPECT_THROW(sluice::sync(fails(), pool), std::runtime_error);
    sluice::sync(upload(std::vector<int>{6}).and_then([&](tensor<int> y) { return x.store(std::move(y)); }), pool);
    EXPECT_EQ(x.read(), std::vector<int>{6});  // the store has overwritten all of it
}

// Other threads that submit wait for the function. So it cannot wait for the device, which may need them.
TEST_P(pinned_tensors, refuse_a_wait_for_the_device_in_a_function_that_changes_them) {
    NEEDS_A_GATE();
    round_robin pool(on, 1);
    const stream home = pool.next();
    const pinned_tensor<int> x(on, {1}), other(on, {1});
    host_buffer<int> landed(home, 1);
    {
        gate held(home);
        sluice::spawn(upload(std::vector<int>{5}).and_then([&](tensor<int> y) { return other.store(std::move(y)); }),
                      pool);
        const std::array accesses{memory_access{landed.memory(), access_mode::write}};
        home.host_call({"write", accesses}, {[to = landed.device_data()] { *to = 6; }});
        const auto refused = [&](auto&& wait) {
            expect_refused(errc::invalid_argument, {"change", "wait before"}, [&] {
                x.change([&](std::span<int> all) {
                    all[0] = 4;
                    wait();
                });
            });
        };
        refused([&] { static_cast<void>(landed.read()); });
        refused([&] { static_cast<void>(landed.write()); });
        refused([&] { static_cast<void>(other.read()); });
    }
    EXPECT_EQ(landed.read()[0], 6);
    EXPECT_EQ(other.read(), std::vector<int>{5});
    EXPECT_EQ(x.read(), std::vector<int>{4});
    EXPECT_EQ(x.change([&](std::span<int>) { return landed.read()[0]; }), 6);  // no wait is necessary
    EXPECT_THROW(x.change([](std::span<int>) { throw std::logic_error("mine"); }), std::logic_error);
}

TEST_P(pinned_tensors, refuse_other_shapes) {
    round_robin pool(on, 1);
    const pinned_tensor<int> x(on, {2, 3});
    expect_refused(errc::shape_mismatch, {"5", "[2, 3]"}, [&] { x.write(std::vector<int>(5)); });
    expect_refused(errc::shape_mismatch, {"[6]", "[2, 3]"},
                   [&] { static_cast<void>(x.store(sluice::sync(zeros<int>({6}), pool))); });
}

}  // namespace
}  // namespace sluice::conformance::pinned_tensor_tests
