// SPDX-License-Identifier: Apache-2.0
// The code about bounds in docs/adding_a_kernel.md, and the error that the page shows. In a file of its own, because
// the other pages' kernels do not check their bounds.
#undef SLUICE_CHECK_BOUNDS
#define SLUICE_CHECK_BOUNDS 1
#include <gtest/gtest.h>

#include <string_view>

#include "sluice/sluice.hpp"

namespace sluice::docs::bounds_tests {
namespace {

// y = the differences of neighbours in x, with a mistake: the last element has no right neighbour.
struct differences {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> y) const {
        if (float* element = y.at(at)) *element = x[at.value() + 1] - x[at.value()];
    }
};

}  // namespace

TEST(adding_a_kernel, bounds_are_checked) {
    runtime machine({.cpu_devices = 1, .cuda = false});
    single_stream pool(machine.default_device());
    auto operation = zip(ones<float>({10}), zeros<float>({10})).and_then([](auto x, auto y) {
        auto range = each_of(y);
        return launch(differences{}, range, std::move(x), std::move(y));
    });
    try {
        sync(std::move(operation).and_then(download), pool);
        FAIL() << "nothing was thrown";
    } catch (const error& found) {
        EXPECT_EQ(found.code(), errc::out_of_range);
        const std::string_view what = found.what();
        const std::string_view begin = "differences on cpu:0: element 10 of a view is out of range: its size is 10 (";
        EXPECT_EQ(what.substr(0, begin.size()), begin);
    }
}

}  // namespace sluice::docs::bounds_tests
