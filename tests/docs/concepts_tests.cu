// SPDX-License-Identifier: Apache-2.0
// The code in docs/concepts.md. Runs on the default device: a GPU if there is one.
#include <gtest/gtest.h>

#include "sluice/async/sync_wait.hpp"
#include "sluice/async/task.hpp"
#include "sluice/kernels/reduce.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

namespace sluice::docs::concepts_tests {
namespace {

struct scale {
    SLUICE_KERNEL void operator()(index_1d at, float factor, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element *= factor;
    }
};

auto doubled(std::vector<float> x) {
    return upload(std::move(x))
        .and_then([](auto y) { return launch(scale{}, each_of(y), 2.f, std::move(y)); })
        .and_then(download);
}

// The same with the upload as an argument: it is submitted first, and its output takes its place.
auto tripled(std::vector<float> x) {
    return launch(scale{}, each_written(), 3.f, upload(std::move(x))).and_then(download);
}

auto best_class(std::vector<float> scores, const shape& of) {
    return upload(std::move(scores), of)
        .and_then(softmax)
        .and_then(argmax())  // one index per row, 64-bit integers
        .and_then(download);
}

task<float> first_of_two(scheduling_policy& pool) {
    auto one = spawn(doubled({1}), pool);
    auto other = spawn(doubled({2}), pool);
    const std::vector<float> a = co_await std::move(one);
    const std::vector<float> b = co_await std::move(other);
    co_return a[0] + b[0];
}

// An operation that hands a command to the stream itself.
auto sevens(std::size_t size) {
    return with_context([size](execution_context& context) {
        tensor<unsigned char> made(context.stream(), {size});
        const std::array accesses{memory_access{made.memory(), access_mode::write}};
        context.stream().fill({"sevens", accesses}, {made.device_data(), 7, size});
        return made;
    });
}

}  // namespace

TEST(concepts, one_operation_runs_in_three_ways) {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    std::vector<float> now = sync(doubled({1, 2, 3}), pool);  // this thread waits
    auto later = spawn(doubled({4, 5, 6}), pool);             // a thread may wait for it later, or never
    std::vector<float> then = std::move(later).get();
    EXPECT_EQ(now, (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(then, (std::vector<float>{8, 10, 12}));
    EXPECT_EQ(sync(tripled({1, 2, 3}), pool), (std::vector<float>{3, 6, 9}));
    EXPECT_EQ(sync_wait(first_of_two(pool)), 6);
}

TEST(concepts, outputs_are_combined) {
    runtime machine;
    round_robin pool(machine.default_device(), 4);
    auto weights = share(upload(std::vector<float>{1, 2}));  // runs once, however often it is used
    auto both = zip(weights, weights).and_then([](shared_tensor<float> a, shared_tensor<float> b) {
        return zip(download(std::move(a)), download(std::move(b)));
    });
    auto [x, y] = sync(std::move(both), pool);
    EXPECT_EQ(x, (std::vector<float>{1, 2}));
    EXPECT_EQ(x, y);
}

TEST(concepts, the_librarys_kernels_are_operations) {
    runtime machine;
    round_robin pool(machine.default_device(), 2);
    EXPECT_EQ(sync(best_class({1, 3, 2, 9, 8, 7}, {2, 3}), pool), (std::vector<std::int64_t>{1, 0}));
}

TEST(concepts, a_users_operation_submits_commands_to_the_stream) {
    runtime machine;
    single_stream pool(machine.default_device());
    EXPECT_EQ(sync(sevens(3).and_then(download), pool), (std::vector<unsigned char>{7, 7, 7}));
}

}  // namespace sluice::docs::concepts_tests
