// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/reduce.hpp"

#include <numeric>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::reduce_tests {
namespace {

// Rows shorter and longer than 1024, aligned and not, few and many; the last ones take several blocks a row.
const shape shapes[] = {{1, 1},    {1000, 1},   {5, 3},       {33, 10},  {7, 31},     {257, 64},
                        {3, 129},  {5, 1000},   {9, 1024},    {9, 1025}, {700, 1031}, {3, 4, 77},
                        {2, 9001}, {3, 40'003}, {1, 100'000}, {300'001}, {}};

class reductions : public conformance_test {
protected:
    // Over the last dimension and over all, with outputs that are NaN before (argmax: -1).
    template <reduction What, typename T>
    auto results(const std::vector<T>& x, const shape& of, reduce_over which) {
        const auto in = submit_to(home, upload(x, of));
        reduced<What, T> poison;
        if constexpr (What == reduction::argmax)
            poison = -1;
        else
            poison = reduced<What, T>(nan);
        auto out = submit_to(home, full(reduced_shape(of, which), poison));
        reduce<What>(home, in, out, which);
        return contents(std::move(out), home);
    }

    // Against the same in double precision. `offset` makes the sum large against what is lost of each addition.
    template <typename T>
    void expect_agreement(const shape& of, float offset) {
        floats values = fresh(of.size());
        for (float& each : values) each += offset;
        const auto x = rounded<T>(values);
        for (const reduce_over which : {reduce_over::last_dimension, reduce_over::all}) {
            SCOPED_TRACE(to_string(of) + " of " + std::to_string(sizeof(T)) + " bytes, offset " +
                         std::to_string(offset));
            const std::size_t columns = which == reduce_over::all ? x.size() : of.columns();
            const auto sums = results<reduction::sum>(x, of, which), means = results<reduction::mean>(x, of, which);
            const auto most = results<reduction::max>(x, of, which), least = results<reduction::min>(x, of, which);
            const auto places = results<reduction::argmax>(x, of, which);
            ASSERT_EQ(sums.size(), x.size() / columns);
            for (std::size_t row = 0; row < sums.size(); ++row) {
                const doubles elements(x.begin() + static_cast<std::ptrdiff_t>(row * columns),
                                       x.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
                const double sum = std::accumulate(elements.begin(), elements.end(), 0.0);
                double magnitude = 0;
                for (const double each : elements) magnitude += std::fabs(each);
                const double slack = 1e-6 * std::fabs(sum) + (sizeof(T) == 2 ? 1e-7 : 1e-12) * magnitude;
                const auto largest = std::max_element(elements.begin(), elements.end());
                ASSERT_LE(std::fabs(sums[row] - sum), slack) << row;
                ASSERT_LE(std::fabs(means[row] * static_cast<double>(columns) - sum), slack) << row;
                ASSERT_EQ(float{most[row]}, *largest) << row;
                ASSERT_EQ(float{least[row]}, *std::min_element(elements.begin(), elements.end())) << row;
                ASSERT_EQ(places[row], largest - elements.begin()) << row;  // the first of the largest
            }
        }
    }

    random_floats fresh{31};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, reductions, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(reductions, agree_with_float64_over_rows_and_over_all) {
    for (const shape& of : shapes) {
        for (const float offset : {0.0f, 1.0f}) {
            expect_agreement<float>(of, offset);
            expect_agreement<half>(of, offset);
            expect_agreement<bfloat16>(of, offset);
        }
    }
}

TEST_P(reductions, sum_what_plain_floats_would_lose) {
    // 2^24 ones added one by one stop at 2^24; and of these three all that matters cancels.
    floats ones((std::size_t{1} << 24) + 4000, 1);
    EXPECT_EQ(results<reduction::sum>(ones, {ones.size()}, reduce_over::all)[0], static_cast<float>(ones.size()));
    floats cancelling;
    for (int i = 0; i < 3000; ++i) cancelling.insert(cancelling.end(), {1e7f, 0.125f, -1e7f});
    EXPECT_EQ(results<reduction::sum>(cancelling, {cancelling.size()}, reduce_over::all)[0], 375);
    EXPECT_EQ(results<reduction::sum>(cancelling, {9, 1000}, reduce_over::last_dimension).size(), 9u);
}

TEST_P(reductions, meet_nan_wherever_it_is_and_only_in_its_row) {
    for (const std::size_t columns : {1u, 10u, 33u, 1024u, 1501u, 20'000u}) {
        for (const std::size_t place : {std::size_t{0}, columns / 2, columns - 1}) {
            SCOPED_TRACE(testing::Message() << columns << " columns, at " << place);
            floats x = fresh(3 * columns);
            x[columns + place] = nan;
            x[2 * columns - 1] = nan;
            const shape of{3, columns};
            const auto last = reduce_over::last_dimension;
            const floats sums = results<reduction::sum>(x, of, last), means = results<reduction::mean>(x, of, last),
                         most = results<reduction::max>(x, of, last), least = results<reduction::min>(x, of, last);
            for (const floats& each : {sums, means, most, least}) {
                EXPECT_TRUE(!std::isnan(each[0]) && std::isnan(each[1]) && !std::isnan(each[2]));
            }
            EXPECT_EQ(results<reduction::argmax>(x, of, last)[1], static_cast<std::int64_t>(place));
            EXPECT_EQ(results<reduction::argmax>(x, of, reduce_over::all)[0],
                      static_cast<std::int64_t>(columns + place));
        }
    }
}

TEST_P(reductions, meet_infinities) {
    const auto last = reduce_over::last_dimension;
    const shape of{3, 2};
    const floats x{infinity, 1, -infinity, infinity, -infinity, -infinity};
    const floats sums = results<reduction::sum>(x, of, last);
    EXPECT_EQ(sums[0], infinity);
    EXPECT_TRUE(std::isnan(sums[1]));
    EXPECT_EQ(sums[2], -infinity);
    EXPECT_EQ(results<reduction::max>(x, of, last), (floats{infinity, infinity, -infinity}));
    EXPECT_EQ(results<reduction::min>(x, of, last), (floats{1, -infinity, -infinity}));
    EXPECT_EQ(results<reduction::argmax>(x, of, last), (std::vector<std::int64_t>{0, 1, 0}));
    // Halves, whose sum is beyond their own range.
    EXPECT_EQ(results<reduction::sum>(rounded<half>(floats(100, 60'000)), {100}, last), floats{6e6f});
}

TEST_P(reductions, name_the_first_of_several_largest) {
    for (const std::size_t columns : {2u, 8u, 40u, 1000u, 5000u, 200'000u}) {
        floats x(columns, -3);
        EXPECT_EQ(results<reduction::argmax>(x, {columns}, reduce_over::all)[0], 0);
        x[columns / 2] = x[columns - 1] = 0;
        EXPECT_EQ(results<reduction::argmax>(x, {columns}, reduce_over::all)[0],
                  static_cast<std::int64_t>(columns / 2));
        x.assign(columns, -infinity);
        EXPECT_EQ(results<reduction::argmax>(x, {columns}, reduce_over::all)[0], 0);
    }
}

TEST_P(reductions, take_a_positive_zero_as_larger_than_a_negative_one) {
    const auto expect_order = [&]<typename T>(T, std::size_t columns, std::size_t place) {
        SCOPED_TRACE(testing::Message() << columns << " columns, at " << place << ", " << sizeof(T) << " bytes");
        std::vector<T> x(columns, T(-0.0f));
        x[place] = T(0.0f);
        const auto last = reduce_over::last_dimension;
        EXPECT_FALSE(std::signbit(float{results<reduction::max>(x, {columns}, last)[0]}));
        EXPECT_EQ(results<reduction::argmax>(x, {columns}, last)[0], static_cast<std::int64_t>(place));
        for (T& each : x) each = T(-float{each});
        EXPECT_TRUE(std::signbit(float{results<reduction::min>(x, {columns}, last)[0]}));
        EXPECT_EQ(results<reduction::argmax>(x, {columns}, last)[0], place == 0 ? 1 : 0);
        x.assign(columns, T(-0.0f));
        EXPECT_TRUE(std::signbit(float{results<reduction::max>(x, {columns}, last)[0]}));
        EXPECT_EQ(results<reduction::argmax>(x, {columns}, last)[0], 0);
    };
    for (const std::size_t columns : {2u, 9u, 40u, 1000u, 5000u, 50'000u}) {
        for (const std::size_t place : {std::size_t{0}, columns / 2, columns - 1}) {
            expect_order(float{}, columns, place);
            expect_order(half{}, columns, place);
            expect_order(bfloat16{}, columns, place);
        }
    }
}

TEST_P(reductions, of_nothing_are_as_documented) {
    const auto last = reduce_over::last_dimension;
    EXPECT_EQ(results<reduction::sum>(floats{}, {3, 0}, last), (floats{0, 0, 0}));
    EXPECT_EQ(results<reduction::sum>(floats{}, {0, 3}, reduce_over::all), floats{0});
    for (const float each : results<reduction::mean>(floats{}, {2, 0}, last)) EXPECT_TRUE(std::isnan(each));
    EXPECT_TRUE(results<reduction::max>(floats{}, {0, 3}, last).empty());
    const auto none = sync(zeros<float>({3, 0}), pool);
    auto out = sync(zeros<float>({3}), pool);
    auto places = sync(zeros<std::int64_t>({}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::invalid_argument, {"max", "no elements"},
                        [&] { reduce<reduction::max>(home, none, out); });
    expect_refused_here(errc::invalid_argument, {"argmax", "no elements"},
                        [&] { reduce<reduction::argmax>(home, none, places, reduce_over::all); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(reductions, are_operations_on_owned_and_on_shared_tensors) {
    const auto run = [&](auto make) {
        auto operation = upload(floats{1, 5, 2, 8, 4, 4}, {2, 3}).and_then(make);
        return sync(std::move(operation).and_then(download), pool);
    };
    EXPECT_EQ(run([](auto x) { return sum(std::move(x)); }), (floats{8, 16}));
    EXPECT_EQ(run([](auto x) { return mean(std::move(x), reduce_over::all); }), floats{4});
    EXPECT_EQ(run([](auto x) { return sluice::max(shared(std::move(x))); }), (floats{5, 8}));
    EXPECT_EQ(run([](auto x) { return sluice::min(std::move(x), reduce_over::all); }), floats{1});
    EXPECT_EQ(run([](auto x) { return argmax(std::move(x)); }), (std::vector<std::int64_t>{1, 0}));
}

TEST_P(reductions, that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto x = sync(zeros<float>({2, 3}), pool);
    auto wrong = sync(zeros<float>({3}), pool), one = sync(zeros<float>({}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"mean", "[2, 3]", "[3]"},
                        [&] { reduce<reduction::mean>(home, x, wrong); });
    expect_refused_here(errc::shape_mismatch, {"sum", "[2, 3]"},
                        [&] { reduce<reduction::sum>(home, x, wrong, reduce_over::all); });
    expect_refused_here(errc::invalid_argument, {"min", "input"}, [&] { reduce<reduction::min>(home, one, one); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::reduce_tests
