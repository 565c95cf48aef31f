// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/arithmetic.hpp"

#include <climits>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/cast.hpp"

namespace sluice::conformance::arithmetic_tests {
namespace {

// Ragged against 4 and 8 elements a piece, and against the 1024 pieces of a block; the last is large for any GPU.
constexpr std::size_t sizes[] = {1, 3, 4, 7, 8, 9, 255, 1025, 4097, 70'001};
constexpr std::size_t large_size = 4'500'003;

class arithmetics : public conformance_test {
protected:
    template <typename T>
    std::vector<T> combined(arithmetic what, const std::vector<T>& x, const std::vector<T>& y) {
        auto on_x = submit_to(home, upload(x));
        const auto on_y = submit_to(home, upload(y));
        combine(home, what, on_x, on_y);
        return contents(std::move(on_x), home);
    }

    // Each element must be the exact result, rounded once: no bound.
    template <typename T>
    void expect_exact(std::size_t size) {
        SCOPED_TRACE(testing::Message() << size << " elements of " << sizeof(T) << " bytes");
        const auto x = rounded<T>(fresh(size, 3)), y = rounded<T>(fresh(size, 3));
        const auto sum = combined(arithmetic::add, x, y), difference = combined(arithmetic::subtract, x, y),
                   product = combined(arithmetic::multiply, x, y);
        auto scaled = submit_to(home, upload(x));
        scale(home, scaled, 0.3f);
        const auto times = contents(std::move(scaled), home);
        for (std::size_t i = 0; i < size; ++i) {
            const double a = float{x[i]}, b = float{y[i]};
            ASSERT_EQ(float{sum[i]}, float{T(static_cast<float>(a + b))}) << i;
            ASSERT_EQ(float{difference[i]}, float{T(static_cast<float>(a - b))}) << i;
            ASSERT_EQ(float{product[i]}, float{T(static_cast<float>(a * b))}) << i;
            ASSERT_EQ(float{times[i]}, float{T(static_cast<float>(a * double{0.3f}))}) << i;
        }
    }

    template <typename To, typename From>
    std::vector<To> casted(const std::vector<From>& x) {
        return sync(upload(x).and_then([](auto in) { return cast<To>(std::move(in)); }).and_then(download), pool);
    }

    random_floats fresh{5};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, arithmetics, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(arithmetics, are_exact_but_for_one_rounding) {
    for (const std::size_t size : sizes) {
        expect_exact<float>(size);
        expect_exact<half>(size);
        expect_exact<bfloat16>(size);
    }
}

TEST_P(arithmetics, of_large_tensors_reach_every_element_once) {
    std::vector<int> x(large_size), y(large_size);
    for (std::size_t i = 0; i < large_size; ++i) {
        x[i] = static_cast<int>(i);
        y[i] = static_cast<int>(i * 2654435761u % 1000);
    }
    const auto sum = combined(arithmetic::add, x, y);
    for (std::size_t i = 0; i < large_size; ++i) ASSERT_EQ(sum[i], x[i] + y[i]) << i;
    const auto halves = casted<half>(floats(large_size, 2));
    for (std::size_t i = 0; i < large_size; ++i) ASSERT_EQ(halves[i].bits(), half(2.0f).bits()) << i;
}

TEST_P(arithmetics, of_ints_wrap_around) {
    const std::vector<int> x{INT_MAX, INT_MIN, 5, -7}, y{1, -1, -3, 100'000'007};
    EXPECT_EQ(combined(arithmetic::add, x, y), (std::vector<int>{INT_MIN, INT_MAX, 2, 100'000'000}));
    EXPECT_EQ(combined(arithmetic::subtract, x, y), (std::vector<int>{INT_MAX - 1, INT_MIN + 1, 8, -100'000'014}));
    EXPECT_EQ(combined(arithmetic::multiply, x, y), (std::vector<int>{INT_MAX, INT_MIN, -15, -700'000'049}));
    auto scaled = sync(upload(x).and_then([](auto in) { return scale(std::move(in), 2); }), pool);
    EXPECT_EQ(contents(std::move(scaled), home), (std::vector<int>{-2, 0, 10, -14}));
}

TEST_P(arithmetics, let_nan_and_infinities_through) {
    const floats sum = combined<float>(arithmetic::add, {nan, infinity, infinity, 3e38f}, {1, 1, -infinity, 3e38f});
    EXPECT_TRUE(std::isnan(sum[0]) && std::isnan(sum[2]));
    EXPECT_TRUE(sum[1] == infinity && sum[3] == infinity);
    const auto product =
        combined<half>(arithmetic::multiply, rounded<half>({nan, 300, 0}), rounded<half>({0, 300, infinity}));
    EXPECT_TRUE(std::isnan(float{product[0]}) && std::isnan(float{product[2]}));
    EXPECT_EQ(float{product[1]}, infinity);
}

TEST_P(arithmetics, take_a_tensor_with_itself) {
    auto x = sync(upload(floats{1, -2, 3}), pool);
    combine(home, arithmetic::multiply, x, x);
    combine(home, arithmetic::add, x, x);
    EXPECT_EQ(contents(std::move(x), home), (floats{2, 8, 18}));
}

TEST_P(arithmetics, are_operations_with_an_owned_or_a_shared_operand) {
    auto owned = zip(upload(floats{1, 2}), upload(floats{3, 5})).and_then([](auto x, auto y) {
        return subtract(std::move(x), std::move(y));
    });
    EXPECT_EQ(sync(std::move(owned).and_then(download), pool), (floats{-2, -3}));
    auto common = zip(upload(floats{1, 2}), share(upload(floats{3, 5}))).and_then([](auto x, auto y) {
        return add(std::move(x), y).and_then([y](auto sum) { return multiply(std::move(sum), y); });
    });
    EXPECT_EQ(sync(std::move(common).and_then(download), pool), (floats{12, 35}));
}

TEST_P(arithmetics, that_do_not_fit_are_refused_before_anything_is_submitted) {
    auto x = sync(zeros<float>({2, 3}), pool);
    const auto y = sync(zeros<float>({3, 2}), pool);
    auto narrow = sync(zeros<half>({6}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"subtract", "[2, 3]", "[3, 2]"},
                        [&] { combine(home, arithmetic::subtract, x, y); });
    expect_refused_here(errc::shape_mismatch, {"cast", "[2, 3]", "[6]"}, [&] { cast(home, x, narrow); });
    auto none = sync(zeros<float>({0, 3}), pool);
    const ticket then = home.issued();
    combine(home, arithmetic::add, none, none);
    scale(home, none, 2);
    EXPECT_EQ(home.issued(), then);
    EXPECT_GE(then, before);
}

TEST_P(arithmetics, casts_round_to_the_nearest_on_every_element) {
    for (const std::size_t size : sizes) {
        SCOPED_TRACE(size);
        const floats x = fresh(size, 70'000);
        const auto halves = casted<half>(x);
        const auto brains = casted<bfloat16>(x);
        const auto ints = casted<int>(x);
        const auto back = casted<float>(halves), across = casted<float>(casted<bfloat16>(halves)),
                   whole = casted<float>(ints);
        const auto int_halves = casted<half>(ints);
        const auto int_brains = casted<bfloat16>(ints);
        ASSERT_EQ(int_halves.size(), size);
        for (std::size_t i = 0; i < size; ++i) {
            ASSERT_EQ(halves[i].bits(), half(x[i]).bits()) << x[i];
            ASSERT_EQ(brains[i].bits(), bfloat16(x[i]).bits()) << x[i];
            ASSERT_EQ(ints[i], static_cast<int>(x[i])) << x[i];
            ASSERT_EQ(back[i], float{half(x[i])});
            ASSERT_EQ(across[i], float{bfloat16(float{half(x[i])})});
            ASSERT_EQ(whole[i], static_cast<float>(static_cast<int>(x[i])));
            ASSERT_EQ(int_halves[i].bits(), half(whole[i]).bits());
            ASSERT_EQ(int_brains[i].bits(), bfloat16(whole[i]).bits());
        }
    }
}

TEST_P(arithmetics, casts_of_every_half_are_exact_and_go_back) {
    std::vector<half> all;
    for (unsigned bits = 0; bits < 0x10000; ++bits) all.push_back(half::from_bits(static_cast<std::uint16_t>(bits)));
    const floats wide = casted<float>(all);
    const auto back = casted<half>(wide);
    const auto ints = casted<int>(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (std::isnan(float{all[i]})) {
            ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(float{back[i]}) && ints[i] == 0) << i;
            continue;
        }
        ASSERT_EQ(wide[i], float{all[i]});
        ASSERT_EQ(back[i].bits(), all[i].bits());
        if (std::isfinite(wide[i])) {
            ASSERT_EQ(ints[i], static_cast<int>(wide[i]));
        }
    }
}

TEST_P(arithmetics, casts_beyond_the_range_are_as_documented) {
    EXPECT_EQ(casted<int>(floats{nan, infinity, -infinity, 3e9f, -3e9f, 2147483520.0f, -2147483648.0f, -1.9f}),
              (std::vector<int>{0, INT_MAX, INT_MIN, INT_MAX, INT_MIN, 2147483520, INT_MIN, -1}));
    const auto halves = casted<half>(floats{65519, 65520, -1e9f, 1e-9f, nan});
    EXPECT_EQ(float{halves[0]}, 65504);
    EXPECT_EQ(float{halves[1]}, infinity);
    EXPECT_EQ(float{halves[2]}, -infinity);
    EXPECT_EQ(float{halves[3]}, 0);
    EXPECT_TRUE(std::isnan(float{halves[4]}));
    EXPECT_TRUE(std::isnan(float{casted<bfloat16>(floats{nan})[0]}));
    EXPECT_EQ(float{casted<half>(std::vector<int>{INT_MAX})[0]}, infinity);
    EXPECT_EQ(float{casted<bfloat16>(std::vector<int>{INT_MAX})[0]}, 2147483648.0f);
}

}  // namespace sluice::conformance::arithmetic_tests
