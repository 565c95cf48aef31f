// SPDX-License-Identifier: Apache-2.0
// Resize on a CPU, in ranges of any size: each element is, bit by bit, what the kernel gives for its index alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "nn/operators/resampling_kernels.hpp"

namespace sluice::nn::resampling_on_cpu_tests {
namespace {

using namespace operators;

class resampling_on_cpu : public ::testing::Test {
protected:
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    bool maybe() { return any(0, 1) == 1; }

    resample_axis axis(std::size_t most) {
        resample_axis made;
        made.from = made.to = any(1, most);
        if (any(0, 2) == 0) return made;
        made.is_kept = false;
        made.place = static_cast<resample_place>(any(0, 6));
        static constexpr double scales[] = {2, 3, 0.5, 0.37, 1.7, 1, 2.25};
        made.scale = scales[any(0, 6)];
        made.width = made.scale * static_cast<double>(made.from);
        made.to = std::max<std::size_t>(1, static_cast<std::size_t>(made.width));
        made.begin = 0.1 * static_cast<double>(any(0, 5)) - 0.2;
        made.extent = 0.3 * static_cast<double>(any(1, 5));
        return made;
    }

    template <typename T>
    std::vector<T> values(std::size_t count) {
        std::vector<T> made(count);
        for (T& each : made) {
            each = static_cast<T>(any(0, 200));
            if constexpr (std::is_floating_point_v<T>) {
                each -= 100;
                const std::size_t odd = any(0, 60);
                if (odd == 0) each = std::numeric_limits<T>::quiet_NaN();
                if (odd == 1) each = std::numeric_limits<T>::infinity();
                if (odd == 2) each = static_cast<T>(-0.0);
            }
        }
        return made;
    }

    // Of all of the output, in ranges of some units.
    template <typename T, typename Kernel>
    void expect_the_same(Kernel kernel, std::vector<T>& to) {
        for (std::size_t i = 0; i < to.size(); ++i) kernel(i);
        const std::vector<T> expected = to;
        std::ranges::fill(to, T(77));
        const std::size_t unit = kernel.host_unit();
        ASSERT_EQ(to.size() % unit, 0u);
        for (std::size_t first = 0; first < to.size();) {
            const std::size_t last = std::min(to.size(), first + unit * any(1, to.size() / unit));
            kernel.on_host(first, last);
            first = last;
        }
        for (std::size_t i = 0; i < to.size(); ++i) {
            if constexpr (std::is_floating_point_v<T>) {
                ASSERT_EQ(std::isnan(to[i]), std::isnan(expected[i])) << "element " << i;
                ASSERT_EQ(std::signbit(to[i]) && !std::isnan(to[i]),
                          std::signbit(expected[i]) && !std::isnan(expected[i]));
                if (std::isnan(to[i])) continue;
            }
            ASSERT_EQ(to[i], expected[i]) << "element " << i;
        }
    }

    template <typename Word>
    void try_nearest() {
        for (int round = 0; round < 150; ++round) {
            SCOPED_TRACE("round " + std::to_string(round));
            nearest_kernel<Word> kernel{};
            kernel.rank = any(1, 4);
            std::size_t from = 1, to = 1;
            for (std::size_t d = 0; d < kernel.rank; ++d) {
                kernel.axes[d] = axis(kernel.rank == 1 ? 1'500 : d + 1 == kernel.rank ? 40 : 9);
                kernel.rounding[d] = static_cast<resample_rounding>(any(0, 3));
                from *= kernel.axes[d].from;
                to *= kernel.axes[d].to;
            }
            const std::vector<Word> x = values<Word>(from);
            std::vector<Word> y(to);
            kernel.from = x.data();
            kernel.to = y.data();
            kernel.outside = static_cast<Word>(9);
            expect_the_same(kernel, y);
            if (HasFatalFailure()) return;
        }
    }

    template <typename Number>
    void try_weights() {
        for (int round = 0; round < 300; ++round) {
            SCOPED_TRACE("round " + std::to_string(round));
            interpolating_kernel<Number> kernel{};
            do kernel.axis = axis(any(0, 5) == 0 ? 1'500 : 40);
            while (kernel.axis.is_kept);
            kernel.inner = maybe() ? 1 : any(1, 70);
            const bool is_cubic = maybe(), is_smooth = maybe();
            kernel.filter.mode = is_cubic ? resample_mode::cubic : resample_mode::linear;
            kernel.filter.leaves_out_outside = maybe();
            if (is_smooth && kernel.axis.scale < 1) kernel.filter.stretch = any(0, 9) == 0 ? 0.001 : kernel.axis.scale;
            kernel.filter.half = static_cast<std::int64_t>(std::ceil((is_cubic ? 2 : 1) / kernel.filter.stretch));
            kernel.filter.is_scaled = is_smooth || kernel.filter.leaves_out_outside;
            kernel.outside = Number(-3.5);
            const std::size_t rows = any(1, 6);
            const std::vector<Number> x = values<Number>(rows * kernel.axis.from * kernel.inner);
            std::vector<Number> y(rows * kernel.axis.to * kernel.inner);
            kernel.from = x.data();
            kernel.to = y.data();
            expect_the_same(kernel, y);
            if (HasFatalFailure()) return;
        }
    }

    std::mt19937 numbers_{11};
};

TEST_F(resampling_on_cpu, takes_the_nearest_elements_of_any_size) {
    try_nearest<std::uint8_t>();
    try_nearest<std::uint16_t>();
    try_nearest<std::uint32_t>();
    try_nearest<std::uint64_t>();
}

TEST_F(resampling_on_cpu, weighs_elements_of_f32) { try_weights<float>(); }
TEST_F(resampling_on_cpu, weighs_elements_of_f64) { try_weights<double>(); }

}  // namespace
}  // namespace sluice::nn::resampling_on_cpu_tests
