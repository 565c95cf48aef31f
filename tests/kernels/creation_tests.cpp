// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/creation.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/fill.hpp"

namespace sluice::conformance::creation_tests {
namespace {

class created_tensors : public conformance_test {
protected:
    template <typename Operation>
    auto values_of(Operation operation) {
        return sync(std::move(operation).and_then(download), pool);
    }
    template <typename Operation>
    floats floats_of(Operation operation) {
        const auto values = values_of(std::move(operation));
        return floats(values.begin(), values.end());
    }

    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, created_tensors, testing::ValuesIn(enrolled_backends()), backend_name);

template <typename T>
std::vector<T> identity_of(std::size_t rows, std::size_t columns) {
    std::vector<T> made(rows * columns, static_cast<T>(0));
    for (std::size_t i = 0; i < std::min(rows, columns); ++i) made[i * columns + i] = static_cast<T>(1);
    return made;
}

}  // namespace

TEST_P(created_tensors, of_ones_hold_the_one_of_their_type) {
    EXPECT_EQ(values_of(ones<float>({3, 5})), floats(15, 1));
    EXPECT_EQ(floats_of(ones<half>({70'001})), floats(70'001, 1));
    EXPECT_EQ(floats_of(ones<bfloat16>({7})), floats(7, 1));
    EXPECT_EQ(values_of(ones<double>({2})), doubles(2, 1));
    EXPECT_EQ(values_of(ones<std::int64_t>({9})), std::vector<std::int64_t>(9, 1));
    EXPECT_EQ(values_of(ones<std::uint8_t>({9})), std::vector<std::uint8_t>(9, 1));
    EXPECT_TRUE(values_of(ones<float>({0})).empty());
}

TEST_P(created_tensors, arange_counts_integers_exactly) {
    EXPECT_EQ(values_of(arange<int>(0, 5)), (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_EQ(values_of(arange<int>(-3, 8, 4)), (std::vector<int>{-3, 1, 5}));
    EXPECT_EQ(values_of(arange<int>(-3, 9, 4)), (std::vector<int>{-3, 1, 5}));
    EXPECT_EQ(values_of(arange<unsigned>(5, 0, -2)), (std::vector<unsigned>{5, 3, 1}));
    EXPECT_EQ(values_of(arange<std::uint8_t>(253, 256)), (std::vector<std::uint8_t>{253, 254, 255}));
    EXPECT_EQ(values_of(arange<std::int16_t>(-32768, 40000, 32767)), (std::vector<std::int16_t>{-32768, -1, 32766}));
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(values_of(arange<std::uint64_t>(0, most, std::uint64_t{1} << 63)),
              (std::vector<std::uint64_t>{0, std::uint64_t{1} << 63}));
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(values_of(arange<std::int64_t>(-1, least, least)), (std::vector<std::int64_t>{-1}));
    EXPECT_TRUE(values_of(arange<int>(4, 4)).empty());
    std::vector<int> many(70'001);
    std::iota(many.begin(), many.end(), -7);
    EXPECT_EQ(values_of(arange<int>(-7, 70'001 - 7)), many);
}

TEST_P(created_tensors, arange_of_floating_point_is_computed_in_double) {
    EXPECT_EQ(values_of(arange<float>(1, 0, -0.25)), (floats{1, 0.75f, 0.5f, 0.25f}));
    EXPECT_EQ(values_of(arange<float>(0, 1, 0.3)), (floats{0, 0.3f, 0.6f, 0.9f}));
    EXPECT_EQ(floats_of(arange<half>(-1, 2)), (floats{-1, 0, 1}));
    EXPECT_TRUE(values_of(arange<float>(2, 2, 0.5)).empty());
    const floats got = values_of(arange<float>(-3, 7000, 0.1));
    const doubles wide = values_of(arange<double>(-3, 7000, 0.1));
    const auto narrow = values_of(arange<bfloat16>(-3, 7000, 0.1));
    ASSERT_EQ(got.size(), std::size_t(std::ceil(7003 / 0.1)));
    ASSERT_EQ(wide.size(), got.size());
    ASSERT_EQ(narrow.size(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double exact = std::fma(double(i), 0.1, -3.0);
        ASSERT_EQ(got[i], float(exact)) << i;
        ASSERT_EQ(wide[i], exact) << i;
        ASSERT_EQ(narrow[i].bits(), bfloat16(float(exact)).bits()) << i;
    }
}

TEST_P(created_tensors, linspace_has_both_ends) {
    EXPECT_EQ(values_of(linspace<float>(0, 1, 5)), (floats{0, 0.25f, 0.5f, 0.75f, 1}));
    EXPECT_EQ(floats_of(linspace<half>(2, -2, 3)), (floats{2, 0, -2}));
    EXPECT_EQ(values_of(linspace<double>(3, 8, 2)), (doubles{3, 8}));
    EXPECT_EQ(values_of(linspace<float>(3, 8, 1)), (floats{3}));
    EXPECT_EQ(values_of(linspace<float>(3, 3, 4)), floats(4, 3));
    EXPECT_TRUE(values_of(linspace<float>(3, 8, 0)).empty());
    for (const std::size_t count : {3, 7, 1000, 70'001}) {
        const double first = -0.1, last = 1.0 / 3;
        const doubles got = values_of(linspace<double>(first, last, count));
        ASSERT_EQ(got.size(), count);
        EXPECT_EQ(got.back(), last);
        for (std::size_t i = 0; i + 1 < count; ++i) {
            const double part = double(i) * (last - first) / double(count - 1);
            ASSERT_EQ(got[i], first + part) << i << " of " << count;
        }
    }
}

TEST_P(created_tensors, eye_has_ones_on_its_diagonal) {
    for (const auto& [rows, columns] :
         {std::pair<std::size_t, std::size_t>{1, 1}, {3, 3}, {2, 5}, {5, 2}, {300, 301}}) {
        EXPECT_EQ(values_of(eye<float>(rows, columns)), identity_of<float>(rows, columns)) << rows << " " << columns;
        EXPECT_EQ(values_of(eye<double>(rows, columns)), identity_of<double>(rows, columns));
        EXPECT_EQ(values_of(eye<std::uint8_t>(rows, columns)), identity_of<std::uint8_t>(rows, columns));
    }
    EXPECT_EQ(floats_of(eye<half>(4)), identity_of<float>(4, 4));
    EXPECT_EQ(floats_of(eye<bfloat16>(4)), identity_of<float>(4, 4));
    EXPECT_EQ(sync(eye<int>(4), pool).shape(), (shape{4, 4}));
    EXPECT_EQ(sync(eye<int>(0, 4), pool).shape(), (shape{0, 4}));
    EXPECT_EQ(sync(eye<int>(4, 0), pool).size(), 0u);
}

TEST_P(created_tensors, refuse_sequences_that_never_end_or_do_not_fit) {
    const auto refuses = [](std::initializer_list<std::string> words, auto&& make,
                            sluice::source_location here = sluice::source_location::current()) {
        expect_refused_here(errc::invalid_argument, words, make, here);
    };
    refuses({"arange", "the step is 0"}, [] { arange<int>(0, 5, 0); });
    refuses({"arange", "the step is 0"}, [] { arange<float>(0, 5, 0); });
    refuses({"arange", "points away"}, [] { arange<int>(0, 5, -1); });
    refuses({"arange", "points away"}, [] { arange<int>(5, 0); });
    refuses({"arange", "points away"}, [] { arange<float>(5, 0); });
    refuses({"arange", "points away"}, [] { arange<half>(0, 5, -0.5); });
    refuses({"arange", "finite"}, [] { arange<float>(0, HUGE_VAL); });
    refuses({"arange", "finite"}, [] { arange<float>(0, 5, std::nan("")); });
    refuses({"arange", "2^53"}, [] { arange<float>(0, 1, 1e-30); });
    refuses({"arange", "2^53"}, [] { arange<std::int64_t>(0, std::int64_t{1} << 60); });
    refuses({"arange", "cannot hold"}, [] { arange<half>(0, 1e6, 1e5); });
    refuses({"arange", "cannot hold"}, [] { arange<unsigned>(-1, 3); });
    refuses({"arange", "cannot hold"}, [] { arange<std::uint8_t>(0, 257); });
    refuses({"arange", "cannot hold"}, [] { arange<int>(-1, std::numeric_limits<std::uint64_t>::max(), 1u << 31); });
    refuses({"linspace", "finite"}, [] { linspace<float>(0, HUGE_VAL, 3); });
    refuses({"linspace", "finite"}, [] { linspace<double>(-1e308, 1e308, 3); });
    refuses({"linspace", "cannot hold"}, [] { linspace<half>(0, 1e6, 3); });
    refuses({"linspace", "2^53"}, [] { linspace<float>(0, 1, (std::size_t{1} << 53) + 2); });
}

TEST_P(created_tensors, are_used_once) {
    auto once = eye<float>(3);
    submit_to(home, std::move(once));
    expect_refused(errc::invalid_argument, {"eye"}, [&] { submit_to(home, std::move(once)); });
}

TEST_P(created_tensors, of_a_graph_are_the_same_at_each_launch) {
    const auto made = compile(pool, [] {
        return zip(arange<float>(0, 16).and_then(download), linspace<float>(0, 1, 3).and_then(download),
                   eye<int>(3).and_then(download));
    });
    for (int launch = 0; launch < 2; ++launch) {
        const auto [counted, between, one] = sluice::sync(made(), pool);
        EXPECT_EQ(counted, counting<float>(16));
        EXPECT_EQ(between, (floats{0, 0.5f, 1}));
        EXPECT_EQ(one, identity_of<int>(3, 3));
    }
}

TEST_P(created_tensors, are_filled_again_where_they_are) {
    auto x = sync(arange<float>(0, 70'001), pool);
    const float* const address = x.device_data();
    auto y = sync(fill(std::move(x), 3), pool);
    EXPECT_EQ(y.device_data(), address);
    EXPECT_EQ(contents(std::move(y), home), floats(70'001, 3));
}

TEST_P(created_tensors, are_filled_whatever_the_size_of_their_elements) {
    struct colour {
        std::uint8_t red, green, blue, alpha;
        bool operator==(const colour&) const = default;
    };
    EXPECT_EQ(values_of(zeros<std::int8_t>({3, 7}).and_then(fill(-5))), std::vector<std::int8_t>(21, -5));
    EXPECT_EQ(floats_of(zeros<half>({33}).and_then(fill(half(1.5f)))), floats(33, 1.5f));
    EXPECT_EQ(values_of(zeros<double>({33}).and_then(fill(0.1))), doubles(33, 0.1));
    EXPECT_EQ(values_of(zeros<colour>({33}).and_then(fill(colour{1, 2, 3, 4}))),
              std::vector<colour>(33, colour{1, 2, 3, 4}));
    EXPECT_TRUE(values_of(zeros<float>({0, 3}).and_then(fill(1.f))).empty());
}

TEST_P(created_tensors, are_filled_in_parts) {
    auto [low, high] = split<2>(sync(zeros<float>({512}), pool));
    auto first = sync(fill(std::move(low), 1.f), pool);
    auto second = sync(fill(std::move(high), 2.f), pool);
    floats expected(256, 1);
    expected.resize(512, 2);
    EXPECT_EQ(contents(join(std::move(first), std::move(second)), home), expected);
}

TEST_P(created_tensors, are_filled_by_the_plain_form_in_the_order_of_the_stream) {
    auto x = sync(ones<int>({5}), pool);
    fill(home, x, 2);
    fill(home, x, 3);
    EXPECT_EQ(contents(std::move(x), home), std::vector<int>(5, 3));
    tensor<int> moved;
    const ticket before = home.issued();
    expect_refused_here(errc::invalid_argument, {"fill on " + GetParam().device, "moved from"},
                        [&] { fill(home, moved, 1); });
    EXPECT_EQ(home.issued(), before);
}

template <typename V, typename T>
concept can_fill = requires(tensor<T> x, V value) { fill(std::move(x), value); };
static_assert(can_fill<int, float> && can_fill<int, std::int8_t> && can_fill<half, float>);
static_assert(!can_fill<float, int> && !can_fill<float, half>);

}  // namespace sluice::conformance::creation_tests
