// SPDX-License-Identifier: Apache-2.0
// flush_denormals: results on each thread that computes, and the caller's floating point afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "nn/small_models.hpp"
#include "sluice/nn/host_view.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/runtime/flush_denormals.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::nn::denormal_tests {
namespace {

using namespace test_support;
constexpr int repetitions = 4;  // the third call of a network computes on the calling thread
const float denormal = std::numeric_limits<float>::denorm_min() * 1000, least = std::numeric_limits<float>::min();

// y = x * half
model halves() {
    model made;
    made.path = "halves.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {named("n")})};
    made.body.outputs = {f32("y", {named("n")})};
    made.body.constants = {{"half", tensor_of<float>({0.5f}, {})}};
    made.body.nodes = {make_node("Mul", {"x", "half"}, {"y"})};
    return made;
}

// How this thread computes: the registers, without what has happened.
unsigned mode_of_this_thread() {
#if defined(__x86_64__)
    constexpr unsigned flags = 0x3f;
    return (_mm_getcsr() & ~flags) | static_cast<unsigned>(std::fegetround()) << 16;
#else
    return static_cast<unsigned>(std::fegetround());
#endif
}

// A matcher takes 10 seconds for these.
bool are_all(std::span<const float> numbers, float number) {
    return std::ranges::all_of(numbers, [&](float each) { return each == number; });
}

class denormals : public ::testing::Test {
protected:
    // What each way of computing gives for these numbers; all are the same. The caller computes as before afterwards.
    float answer(bool flushes, float number, std::size_t count, std::size_t workers) {
        std::optional<flush_denormals> flushing;
        if (flushes) flushing.emplace();
        runtime machine{runtime_options{.cpu_devices = 1, .cpu_workers = workers, .cuda = false}};
        flushing.reset();
        round_robin pool(machine.find("cpu"), 2);
        const unsigned before = mode_of_this_thread();
        const network made = sync(make_network(halves()), pool);
        const any_tensor x(std::vector<float>(count, number), {count});
        const float first = sync(made.run({x}), pool).at(0).values<float>()[0];
        for (int i = 0; i < repetitions; ++i) {
            std::vector<float> y(count, 7);
            made({input_view(x)}, {{y, {count}}});
            EXPECT_TRUE(are_all(y, first));
            EXPECT_EQ(mode_of_this_thread(), before);
            EXPECT_TRUE(are_all(sync(made.run({x}), pool).at(0).values<float>(), first));
            EXPECT_EQ(mode_of_this_thread(), before);
        }
        return first;
    }
};

TEST_F(denormals, are_zero_where_they_are_flushed_and_are_kept_by_default) {
    for (const std::size_t workers : {1u, 3u}) {
        for (const std::size_t count : {4u, 300'000u}) {
            SCOPED_TRACE(std::to_string(count) + " numbers, " + std::to_string(workers) + " workers");
            EXPECT_EQ(answer(true, denormal, count, workers), 0);  // they are read as 0
            EXPECT_EQ(answer(true, least, count, workers), 0);     // a result becomes 0
            EXPECT_EQ(answer(true, -4, count, workers), -2);       // others are as they were
            EXPECT_EQ(answer(false, denormal, count, workers), denormal / 2);
            EXPECT_EQ(answer(false, least, count, workers), least / 2);
        }
    }
    EXPECT_NE(denormal / 2, 0);  // this thread keeps them
}

// As docs/inference.md says.
TEST(denormals_of_devices, are_flushed_by_runtimes_that_are_made_so) {
    std::optional<sluice::runtime> machine;
    {
        const sluice::flush_denormals flushing;
        machine.emplace();  // its CPU devices take denormal numbers as 0, for as long as they live
    }
    single_stream pool(machine->find("cpu:0"));
    const network made = sync(make_network(halves()), pool);
    const any_tensor x(std::vector<float>{denormal, 2}, {2});
    EXPECT_THAT(sync(made.run({x}), pool).at(0).values<float>(), ::testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace sluice::nn::denormal_tests
