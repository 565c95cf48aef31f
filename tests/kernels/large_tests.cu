// SPDX-License-Identifier: Apache-2.0
// More than 2^32 elements, on a GPU with room for them.
#include "conformance/backend.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/matvec.hpp"
#include "sluice/kernels/reduce.hpp"

namespace sluice::conformance::large_tests {
namespace {

CONFORMANCE_SUITE(large_kernels);

constexpr std::size_t different = 1021;  // numbers that a half holds exactly

// All elements of row r become r % different.
struct number_rows {
    SLUICE_KERNEL void operator()(index_1d at, std::size_t columns, disjoint_view<half> x) const {
        if (half* const element = x.at(at)) *element = half(static_cast<float>(at.value() / columns % different));
    }
};

// Element i becomes its distance from i % different.
struct subtract_number {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<half> x) const {
        half* const element = x.at(at);
        if (element == nullptr) return;
        const float distance = float{*element} - static_cast<float>(at.value() % different);
        *element = half(distance < 0 ? -distance : distance);
    }
};

}  // namespace

TEST_P(large_kernels, matvecs_of_more_than_two_to_the_32_outputs_take_each_outputs_own_weights) {
    constexpr std::size_t outs = (std::size_t{1} << 32) + 4, in = 8, free_bytes = std::size_t{84} << 30;
    if (GetParam().is_traced || GetParam().is_compiled) GTEST_SKIP() << "once is enough";
    if (on.memory().free_bytes < free_bytes) GTEST_SKIP() << "needs 84 GiB of free device memory";
    single_stream pool(on);
    stream home = pool.next();
    tensor<half> weight(home, {outs, in}), out(home, {1, outs});
    launch_on(home, number_rows{}, each_of(weight), in, weight);
    const auto x = submit_to(home, full<half>({1, in}, half(1.0f / in)));
    matvec(home, x, weight, nullptr, out);
    launch_on(home, subtract_number{}, each_of(out), out);
    const auto farthest = sync_on(sluice::max(std::move(out), reduce_over::all).and_then(download), home);
    EXPECT_EQ(float{farthest[0]}, 0);
}

}  // namespace sluice::conformance::large_tests
