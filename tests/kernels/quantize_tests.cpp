// SPDX-License-Identifier: Apache-2.0
// quantize and dequantize on the default device, a GPU where there is one.
#include "sluice/kernels/quantize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "conformance/expect_refused.hpp"
#include "kernels/quantized_mlp_reference.hpp"
#include "sluice/sluice.hpp"

namespace sluice::quantize_tests {
namespace {

using namespace conformance;

class quantized_tensors : public testing::Test {
protected:
    // All values of half, among them NaN and infinities, in the type.
    template <typename Wide>
    static std::vector<Wide> many_numbers() {
        std::vector<Wide> made;
        for (unsigned bits = 0; bits < 0x10000; ++bits) {
            made.push_back(Wide(float{half::from_bits(static_cast<std::uint16_t>(bits))}));
        }
        return made;
    }

    template <typename Wide, typename Eight>
    void expect_both_ways(float scale) {
        const auto x = many_numbers<Wide>();
        const auto narrow = sync(upload(x, {256, 256}).and_then(quantize<Eight>(scale)).and_then(download), pool);
        ASSERT_EQ(narrow.size(), x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            const Eight expected = nearest_8_bits<Eight>(float{x[i]} * (1 / scale));
            ASSERT_EQ(std::memcmp(&narrow[i], &expected, 1), 0)
                << float{x[i]} << " / " << scale << " became " << static_cast<float>(narrow[i]);
        }
        const auto wide = sync(upload(narrow, {65536}).and_then(dequantize<Wide>(scale)).and_then(download), pool);
        for (std::size_t i = 0; i < x.size(); ++i) {
            const Wide expected(static_cast<float>(narrow[i]) * scale);
            if (std::isnan(float{expected})) {
                ASSERT_TRUE(std::isnan(float{wide[i]}));
            } else {
                ASSERT_EQ(float{wide[i]}, float{expected}) << static_cast<float>(narrow[i]) << " * " << scale;
            }
        }
    }

    runtime machine;
    round_robin pool{machine.default_device(), 2};
};

}  // namespace

TEST_F(quantized_tensors, hold_the_nearest_elements_of_8_bits) {
    for (const float scale : {1.0f, 0.0078125f, 0.3f, 200.0f}) {
        expect_both_ways<float, f8_e4m3>(scale);
        expect_both_ways<half, f8_e4m3>(scale);
        expect_both_ways<bfloat16, f8_e4m3>(scale);
        expect_both_ways<float, std::int8_t>(scale);
        expect_both_ways<half, std::int8_t>(scale);
        expect_both_ways<bfloat16, std::int8_t>(scale);
    }
}

TEST_F(quantized_tensors, may_be_shared_odd_in_size_or_empty) {
    const auto x = sync(share(upload(floats{-1, 0.5f, 3, 1e9f, 0}, {5})), pool);
    const std::vector<std::int8_t> got = sync(quantize<std::int8_t>(x, 0.5f).and_then(download), pool);
    EXPECT_EQ(got, (std::vector<std::int8_t>{-2, 1, 6, 127, 0}));
    const auto none = sync(upload(floats{}, {0, 3}).and_then(quantize<f8_e4m3>(1.0f)), pool);
    EXPECT_EQ(none.shape(), (shape{0, 3}));
}

TEST_F(quantized_tensors, refuse_scales_that_are_not_positive_and_finite) {
    const auto x = sync(share(upload(floats{1, 2}, {2})), pool);
    for (const float scale : {0.0f, -1.0f, nan, infinity, 1e-40f}) {
        expect_refused_here(errc::invalid_argument, {"quantize", "the scale is", "it must be positive"},
                            [&] { sync(quantize<f8_e4m3>(x, scale), pool); });
    }
    stream home = pool.next();
    tensor<f8_e4m3> narrow(home, {3});
    expect_refused_here(errc::shape_mismatch, {"quantize", "[2]", "[3]"}, [&] { quantize(home, *x, 1, narrow); });
    tensor<float> wide(home, {2});
    expect_refused_here(errc::shape_mismatch, {"dequantize", "[3]", "[2]"}, [&] { dequantize(home, narrow, 1, wide); });
}

}  // namespace sluice::quantize_tests
