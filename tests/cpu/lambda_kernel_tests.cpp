// SPDX-License-Identifier: Apache-2.0
// A lambda is a kernel where the host compiler compiles the launch, as here.
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "sluice/sluice.hpp"

namespace sluice::lambda_kernel_tests {
namespace {

class lambda_kernels : public testing::Test {
protected:
    runtime owner{{.cpu_devices = 1, .cpu_workers = 2, .cuda = false}};
    single_stream pool{owner.find("cpu:0")};
};

}  // namespace

TEST_F(lambda_kernels, run_once_for_each_element_with_what_they_capture) {
    auto operation = full<int>({1000}, 5).and_then([factor = 3](tensor<int> x) {
        const auto range = each_of(x);
        const auto kernel = [factor](index_1d at, int addend, disjoint_view<int> all) {
            if (int* const e = all.at(at)) *e = factor * *e + addend + static_cast<int>(at.value());
        };
        return launch(kernel, range, 2, std::move(x));
    });
    std::vector<int> expected(1000);
    std::iota(expected.begin(), expected.end(), 3 * 5 + 2);
    EXPECT_EQ(sync(std::move(operation).and_then(download), pool), expected);
}

TEST_F(lambda_kernels, are_launched_on_a_stream) {
    auto x = sync(zeros<int>({2, 3}), pool);
    const auto kernel = [](index_2d at, disjoint_matrix<int> all) {
        if (int* const e = all.at(at)) *e += static_cast<int>(10 * at.row() + at.column());
    };
    launch_on(pool.next(), kernel, each_of(x), x);
    EXPECT_EQ(sync(download(std::move(x)), pool), (std::vector<int>{0, 1, 2, 10, 11, 12}));
}

}  // namespace sluice::lambda_kernel_tests
