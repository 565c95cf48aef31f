// SPDX-License-Identifier: Apache-2.0
// The code in docs/simulator.md.
#include <gmock/gmock.h>

#include <filesystem>
#include <memory>

#include "sluice/sluice.hpp"

namespace sluice::docs::simulator_tests {
namespace {

struct twice {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* element = x.at(at)) *element *= 2;
    }
};

auto doubled(std::vector<float> x) {
    return upload(std::move(x)).and_then([](auto y) { return launch(twice{}, each_of(y), std::move(y)); });
}

// Wrong on purpose: the command does not name the memory that it writes.
auto forgetful_sevens(std::size_t size) {
    return with_context([size](execution_context& context) {
        tensor<unsigned char> bytes(context.stream(), {size});
        context.stream().fill({"sevens"}, {bytes.device_data(), 7, size});
        return bytes;
    });
}

}  // namespace

TEST(simulator, a_right_pipeline_is_clean) {
    sim::explore([] { return doubled({1, 2, 3}).and_then(download); }, {.schedules = 1000}).require_clean();

    const auto two_batches = [](scheduling_policy& pool) {
        auto one = spawn(doubled({1, 2}).and_then(download), pool);
        auto other = spawn(doubled({3, 4}).and_then(download), pool);
        return std::tuple(std::move(one).get(), std::move(other).get());
    };
    sim::explore(two_batches, {.schedules = 1000, .with_device_faults = true}).require_clean();
}

TEST(simulator, a_wrong_pipeline_is_found) {
    const auto pipeline = [] { return forgetful_sevens(8).and_then(download); };
    const sim::exploration seen = sim::explore(pipeline);
    ASSERT_FALSE(seen.is_clean());
    const sim::finding found = *seen.found;  // to_string(found) says all of it

    EXPECT_EQ(found.what, sim::fault::undeclared_access);
    EXPECT_THAT(to_string(found), testing::HasSubstr("sevens"));

    const auto again = sim::explore(pipeline, {.schedules = 1, .seed = found.seed});

    EXPECT_EQ(to_string(again.found.value()), to_string(found));
}

TEST(simulator, lock_free_code_is_explored) {
    const auto lost_update = [] {
        auto counter = std::make_shared<sim::atomic<int>>(0);
        const auto add_one = [counter] { counter->store(counter->load() + 1); };  // wrong: not one step
        return sim::scenario{{add_one, add_one}, [counter] { sim::check(counter->load() == 2, "an update is lost"); }};
    };
    const sim::interleave_result result = sim::interleave(lost_update);

    ASSERT_TRUE(result.failure);
    EXPECT_THAT(result.failure->message, testing::HasSubstr("an update is lost"));
}

}  // namespace sluice::docs::simulator_tests
