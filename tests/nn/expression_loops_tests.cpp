// SPDX-License-Identifier: Apache-2.0
// Each loop of each vector unit that this processor has gives, bit by bit, what one step gives for each number; and
// elements are read and written as one by one.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "nn/operators/expression_loops.hpp"
#include "nn/operators/expression_steps.hpp"
#include "nn/operators/numbers.hpp"

namespace sluice::nn::expression_loops_tests {
namespace {

using namespace operators;

template <typename Number>
class expression_loops_of : public ::testing::Test {
protected:
    // Odd ones, and others, of which many are equal.
    std::vector<Number> numbers(std::size_t count) {
        using limits = std::numeric_limits<Number>;
        std::vector<Number> odd = {0, 1, 2, limits::max(), limits::min(), limits::lowest()};
        if constexpr (std::is_signed_v<Number>) odd.insert(odd.end(), {-1, -2, -100});
        if constexpr (std::is_floating_point_v<Number>) {
            odd.insert(odd.end(),
                       {Number(-0.0), Number(0.5), Number(-2.5), limits::infinity(), -limits::infinity(),
                        limits::quiet_NaN(), limits::denorm_min(), Number(2147483647.5), Number(-2147483648.0),
                        Number(4e9), Number(9.3e18), Number(-9.3e18), Number(1.9e19)});
        } else {
            odd.insert(odd.end(), {127, 128, 255, 256, 65'535, 65'536, Number(1) << 31, (Number(1) << 32) - 1});
        }
        std::vector<Number> made(count);
        for (Number& each : made) {
            const std::size_t any = any_();
            each = any % 3 == 0 ? odd[any / 3 % odd.size()] : static_cast<Number>(any % 1'000) / 4;
            if constexpr (std::is_signed_v<Number>)
                if (any % 5 == 0 && each != std::numeric_limits<Number>::lowest()) each = -each;
        }
        return made;
    }
    static constexpr std::array<std::size_t, 6> counts = {0, 1, 7, 63, 256, 301};

    std::mt19937_64 any_{5};
};

using kinds = ::testing::Types<float, double, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(expression_loops_of, kinds);

// NaN is any NaN.
template <typename Number>
void expect_same_bits(Number made, Number expected) {
    if constexpr (std::is_floating_point_v<Number>) {
        ASSERT_EQ(std::isnan(made), std::isnan(expected));
        if (std::isnan(made)) return;
        ASSERT_EQ(std::signbit(made), std::signbit(expected));
    }
    ASSERT_EQ(made, expected);
}

TYPED_TEST(expression_loops_of, compute_what_one_step_does) {
    std::size_t tried = 0;
    for (const expression_loops* const unit : known_expression_loops()) {
        for (std::size_t what = 0; what < opcodes; ++what) {
            const auto loop = unit->template of<TypeParam>().steps[what];
            if (loop == nullptr) continue;
            ++tried;
            for (const std::size_t count : this->counts) {
                const auto a = this->numbers(count), b = this->numbers(count), c = this->numbers(count);
                std::vector<TypeParam> made(count);
                loop(a.data(), b.data(), c.data(), made.data(), count);
                for (std::size_t i = 0; i < count; ++i) {
                    SCOPED_TRACE("operation " + std::to_string(what) + " of " + std::to_string(a[i]) + " and " +
                                 std::to_string(b[i]));
                    expect_same_bits(made[i], apply_step<TypeParam>(static_cast<opcode>(what), a[i], b[i], c[i]));
                    if (this->HasFatalFailure()) return;
                }
            }
        }
    }
    EXPECT_GE(tried, 21u);
}

TYPED_TEST(expression_loops_of, read_and_write_elements_as_one_by_one) {
    std::size_t tried = 0;
    for (const expression_loops* const unit : known_expression_loops()) {
        for (std::size_t k = 0; k < element_types; ++k) {
            const auto type = static_cast<io::dtype>(k);
            const auto read = unit->template of<TypeParam>().read[k];
            const auto write = unit->template of<TypeParam>().write[k];
            for (const std::size_t count : this->counts) {
                SCOPED_TRACE("type " + std::to_string(k) + ", " + std::to_string(count) + " elements");
                const auto x = this->numbers(count);
                std::vector<std::byte> elements(count * 8 + 8), expected(count * 8 + 8);
                for (std::size_t i = 0; i < count; ++i) store_number<TypeParam>(expected.data(), type, i, x[i]);
                if (write != nullptr) {
                    write(x.data(), elements.data(), count);
                    for (std::size_t i = 0; i < count * io::size_of(type); ++i)
                        ASSERT_EQ(elements[i], expected[i]) << i;
                    ++tried;
                }
                if (read == nullptr) continue;
                ++tried;
                std::vector<TypeParam> made(count);
                read(expected.data(), made.data(), count);
                for (std::size_t i = 0; i < count; ++i) {
                    expect_same_bits(made[i], load_number<TypeParam>(expected.data(), type, i));
                    if (this->HasFatalFailure()) return;
                }
            }
        }
    }
    EXPECT_GE(tried, 12u);
}

}  // namespace
}  // namespace sluice::nn::expression_loops_tests
