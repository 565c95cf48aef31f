// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/naive.hpp"

#include "conformance/backend.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::naive_tests {
namespace {

class naive_kernels : public conformance_test {
protected:
    tensor<float> put(const floats& values, const shape& of) { return submit_to(home, upload(values, of)); }

    random_floats fresh{42};
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, naive_kernels, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(naive_kernels, sgemm_agrees_with_the_reference_over_ragged_shapes) {
    struct {
        std::size_t rows, columns, inner;
    } const shapes[] = {{1, 1, 1}, {1, 17, 5}, {9, 1, 3}, {8, 32, 16}, {33, 65, 7}, {130, 67, 31}};
    for (const auto& [rows, columns, inner] : shapes) {
        const floats a = fresh(rows * inner), b = fresh(inner * columns), c = fresh(rows * columns);
        const auto left = put(a, {rows, inner}), right = put(b, {inner, columns});
        auto out = put(c, {rows, columns});
        launch_on(home, kernels::sgemm_naive{}, each_of(out), 0.5f, left, right, -2.0f, out);
        doubles expected = product(a, b, {}, rows, columns, inner, false);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 0.5 * expected[i] - 2.0 * double{c[i]};
        expect_close(contents(std::move(out), home), expected);
    }
}

TEST_P(naive_kernels, matvec_writes_every_element_and_agrees_with_the_reference) {
    for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 1}, {1, 300}, {300, 1}, {257, 129}}) {
        const floats a = fresh(rows * columns), x = fresh(columns);
        const auto matrix = put(a, {rows, columns}), vector = put(x, {columns});
        auto out = submit_to(home, full<float>({rows}, nan));
        launch_on(home, kernels::matvec_naive{}, each_of(out), matrix, vector, out);
        expect_close(contents(std::move(out), home), product(a, x, {}, rows, 1, columns, false));
    }
}

TEST_P(naive_kernels, relu_keeps_what_is_positive_and_nan) {
    auto x = put({-1, 0, 2, nan, -0.0f, -infinity, infinity}, {7});
    launch_on(home, kernels::relu{}, each_of(x), x);
    const floats got = contents(std::move(x), home);
    EXPECT_EQ(floats(got.begin(), got.begin() + 3), (floats{0, 0, 2}));
    EXPECT_TRUE(std::isnan(got[3]));
    EXPECT_EQ(floats(got.begin() + 4, got.end()), (floats{0, 0, infinity}));
}

TEST_P(naive_kernels, compose_as_operations) {
    const floats a = fresh(6 * 4), b = fresh(4 * 5);
    auto operation =
        zip(upload(a, {6, 4}), upload(b, {4, 5}), zeros<float>({6, 5}))
            .and_then([](auto left, auto right, auto out) {
                const auto all = each_of(out);
                return launch(kernels::sgemm_naive{}, all, 1, std::move(left), std::move(right), 0, std::move(out));
            })
            .and_then([](auto out) {
                const auto all = each_of(out);
                return launch(kernels::relu{}, all, std::move(out));
            });
    expect_close(sync(std::move(operation).and_then(download), pool),
                 activated(product(a, b, {}, 6, 5, 4, false), activation::relu, 5));
}

}  // namespace sluice::conformance::naive_tests
