// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/transpose.hpp"

#include <cstdint>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::transpose_tests {
namespace {

// On both sides of the tiles' 32 and 64.
const shape shapes[] = {{1, 1},    {1, 100},    {100, 1},      {31, 33},      {32, 32},
                        {64, 64},  {65, 63},    {127, 5},      {5, 127},      {200, 70},
                        {1000, 3}, {7, 33, 65}, {2, 3, 64, 1}, {3, 2, 5, 40}, {70'000, 1, 1}};

class transposes : public conformance_test {
protected:
    template <typename T>
    void expect_transposed(const shape& of) {
        SCOPED_TRACE(to_string(of) + " of " + std::to_string(sizeof(T)) + " bytes");
        std::vector<T> x(of.size());
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 2654435761u >> 7);
        const auto in = submit_to(home, upload(x, of));
        auto out = submit_to(home, full<T>(transposed(of), static_cast<T>(0x5a)));
        transpose(home, in, out);
        const auto got = contents(std::move(out), home);
        const std::size_t rows = of[of.rank() - 2], columns = of[of.rank() - 1];
        for (std::size_t i = 0; i < x.size(); ++i) {
            const std::size_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
            ASSERT_EQ(got[(matrix * columns + column) * rows + row], x[i]) << i;
        }
    }

    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, transposes, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(transposes, exchange_the_last_two_dimensions_for_every_size_of_element) {
    for (const shape& of : shapes) {
        expect_transposed<std::uint8_t>(of);
        expect_transposed<std::uint16_t>(of);
        expect_transposed<std::uint32_t>(of);
        expect_transposed<std::uint64_t>(of);
    }
}

TEST_P(transposes, of_matrices_with_more_tiles_down_than_a_grid_has_blocks) {
    expect_transposed<std::uint8_t>({65'536 * 64 + 70, 1});
    expect_transposed<std::uint32_t>({65'536 * 32 + 40, 2});
}

TEST_P(transposes, are_operations_and_their_own_inverse) {
    const floats x = random_floats(1)(12 * 41);
    auto once = upload(x, {12, 41}).and_then([](auto in) { return transpose(std::move(in)); });
    auto twice = std::move(once).and_then([](auto in) { return transpose(shared(std::move(in))); });
    auto back = sync(std::move(twice), pool);
    EXPECT_EQ(back.shape(), (shape{12, 41}));
    EXPECT_EQ(contents(std::move(back), home), x);
}

TEST_P(transposes, of_nothing_submit_nothing) {
    const auto x = sync(zeros<float>({0, 5}), pool);
    auto out = sync(zeros<float>({5, 0}), pool);
    const ticket before = home.issued();
    transpose(home, x, out);
    EXPECT_EQ(home.issued(), before);
}

TEST_P(transposes, that_do_not_fit_are_refused_before_anything_is_submitted) {
    auto flat = sync(zeros<float>({6}), pool), x = sync(zeros<float>({2, 3}), pool),
         same = sync(zeros<float>({3, 3}), pool), wrong = sync(zeros<float>({2, 3}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"transpose", "[6]"}, [&] { sync(transpose(std::move(flat)), pool); });
    expect_refused_here(errc::shape_mismatch, {"transpose", "[2, 3]"}, [&] { transpose(home, x, wrong); });
    expect_refused_here(errc::invalid_argument, {"transpose", "input"}, [&] { transpose(home, same, same); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::transpose_tests
