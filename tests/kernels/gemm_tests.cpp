// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/gemm.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/parts.hpp"

namespace sluice::conformance::gemm_tests {
namespace {

constexpr activation all_activations[] = {activation::none,    activation::relu, activation::gelu,
                                          activation::sigmoid, activation::tanh, activation::softmax};

struct gemm_shape {
    std::size_t rows, columns, inner;
};
constexpr gemm_shape all_shapes[] = {{1, 1, 1},       {1, 7, 3},      {5, 1, 4},     {3, 10, 1},     {16, 16, 16},
                                     {17, 31, 9},     {1, 64, 33},    {100, 10, 64}, {257, 129, 65}, {64, 128, 784},
                                     {200, 120, 401}, {1, 3001, 3000}};  // for workers of a CPU together

class gemms : public conformance_test {
protected:
    shared_tensor<float> upload_shared(const floats& values, const shape& of) {
        return sync(share(upload(values, of)), pool);
    }

    random_floats fresh{1234};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, gemms, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(gemms, agree_with_the_reference_in_every_form) {
    for (const auto& [rows, columns, inner] : all_shapes) {
        const floats a = fresh(rows * inner), b = fresh(inner * columns), bias = fresh(columns);
        const auto on_a = upload_shared(a, {rows, inner});
        const auto on_bias = upload_shared(bias, {columns});
        for (const bool transposed : {false, true}) {
            const auto on_b = upload_shared(b, transposed ? shape{columns, inner} : shape{inner, columns});
            for (const bool biased : {false, true}) {
                const doubles plain = product(a, b, biased ? bias : floats{}, rows, columns, inner, transposed);
                for (const activation after : all_activations) {
                    SCOPED_TRACE(testing::Message()
                                 << rows << "x" << columns << "x" << inner << (transposed ? " transposed" : "")
                                 << (biased ? " biased " : " ") << to_string(after));
                    auto out = submit_to(home, full<float>({rows, columns}, nan));
                    gemm(home, *on_a, *on_b, biased ? &*on_bias : nullptr, out, {transposed, after});
                    expect_close(contents(std::move(out), home), activated(plain, after, columns));
                }
            }
        }
    }
}

// Two streams, each on its half of the rows.
TEST_P(gemms, read_and_write_parts_of_tensors) {
    const floats a = fresh(128 * 64), b = fresh(64 * 32);
    const auto on_b = upload_shared(b, {64, 32});
    auto [top, bottom] = split<2>(submit_to(home, upload(a, {128, 64})));
    auto [out_top, out_bottom] = split<2>(submit_to(home, full<float>({128, 32}, nan)));
    const stream other = pool.next();
    gemm(home, top, *on_b, nullptr, out_top, {});
    gemm(other, bottom, *on_b, nullptr, out_bottom, {});
    auto out = join(std::move(out_top), std::move(out_bottom));
    expect_close(contents(std::move(out), home), product(a, b, {}, 128, 32, 64, false));
}

TEST_P(gemms, are_operations_on_owned_and_shared_operands) {
    const floats a = fresh(6 * 5), b = fresh(5 * 4), bias = fresh(4);
    const auto shared_b = upload_shared(b, {5, 4});
    const auto shared_bias = upload_shared(bias, {4});
    const auto make_a = [&] { return upload(a, {6, 5}); };
    auto both_owned =
        zip(make_a(), upload(b, {5, 4})).and_then([](auto x, auto w) { return gemm(std::move(x), std::move(w)); });
    expect_close(sync(std::move(both_owned).and_then(download), pool), product(a, b, {}, 6, 4, 5, false));
    auto with_bias = make_a().and_then(
        [=](auto x) { return gemm(std::move(x), shared_b, shared_bias, {.after = activation::relu}); });
    expect_close(sync(std::move(with_bias).and_then(download), pool),
                 activated(product(a, b, bias, 6, 4, 5, false), activation::relu, 4));
}

TEST_P(gemms, linear_takes_the_weight_as_rows_of_outputs) {
    const floats x = fresh(9 * 7), weight = fresh(3 * 7), bias = fresh(3);
    const auto w = upload_shared(weight, {3, 7});
    const auto shift = upload_shared(bias, {3});
    for (const activation after : all_activations) {
        auto layer = upload(x, {9, 7}).and_then([&](auto in) { return linear(std::move(in), w, shift, after); });
        expect_close(sync(std::move(layer).and_then(download), pool),
                     activated(product(x, weight, bias, 9, 3, 7, true), after, 3));
    }
    auto unbiased = linear(upload_shared(x, {9, 7}), w, std::nullopt);
    expect_close(sync(std::move(unbiased).and_then(download), pool), product(x, weight, {}, 9, 3, 7, true));
}

TEST_P(gemms, of_several_shapes_run_side_by_side_on_several_streams) {
    std::vector<device_future<pending<floats>>> futures;
    std::vector<doubles> expected;
    round_robin many(on, 4);
    for (int i = 0; i < 60; ++i) {
        const std::size_t rows = 1 + i % 7, columns = 1 + i % 5, inner = 1 + i % 11;
        const floats a = fresh(rows * inner), b = fresh(inner * columns), bias = fresh(columns);
        expected.push_back(activated(product(a, b, bias, rows, columns, inner, true), activation::relu, columns));
        auto layer = zip(upload(a, {rows, inner}), share(upload(b, {columns, inner})), share(upload(bias, {columns})))
                         .and_then([](auto x, auto w, auto s) { return linear(std::move(x), w, s, activation::relu); });
        futures.push_back(spawn(std::move(layer).and_then(download), many));
    }
    for (std::size_t i = 0; i < futures.size(); ++i) expect_close(std::move(futures[i]).get(), expected[i]);
}

TEST_P(gemms, of_no_rows_or_no_columns_are_empty) {
    const auto b = upload_shared(fresh(12), {3, 4});
    EXPECT_EQ(sync(zeros<float>({0, 3}).and_then([=](auto a) { return gemm(std::move(a), b); }), pool).shape(),
              (shape{0, 4}));
    auto none_across = zip(zeros<float>({2, 3}), zeros<float>({3, 0})).and_then([](auto a, auto w) {
        return gemm(std::move(a), std::move(w), {.after = activation::softmax});
    });
    EXPECT_EQ(sync(std::move(none_across), pool).shape(), (shape{2, 0}));
}

TEST_P(gemms, over_no_inner_dimension_are_the_bias) {
    const floats bias{-1, 0.5f, 2};
    const auto on_bias = upload_shared(bias, {3});
    for (const bool transposed : {false, true}) {
        const auto a = upload_shared({}, {2, 0}), b = upload_shared({}, transposed ? shape{3, 0} : shape{0, 3});
        for (const activation after : all_activations) {
            for (const bool biased : {false, true}) {
                SCOPED_TRACE(std::string(to_string(after)) + (biased ? " biased" : ""));
                const doubles sums = product({}, {}, biased ? bias : floats{}, 2, 3, 0, transposed);
                auto out = submit_to(home, full<float>({2, 3}, nan));
                gemm(home, *a, *b, biased ? &*on_bias : nullptr, out, {transposed, after});
                expect_close(contents(std::move(out), home), activated(sums, after, 3));
            }
        }
    }
}

TEST_P(gemms, let_nan_and_infinity_through) {
    const auto b = upload_shared({1, 2, 3, 4}, {2, 2});
    auto product_of = [&](floats a) {
        return sync(
            upload(std::move(a), {1, 2}).and_then([&](auto x) { return gemm(std::move(x), b); }).and_then(download),
            pool);
    };
    const floats with_nan = product_of({nan, 1});
    EXPECT_TRUE(std::isnan(with_nan[0]) && std::isnan(with_nan[1]));
    EXPECT_EQ(product_of({infinity, 1}), (floats{infinity, infinity}));
}

TEST_P(gemms, of_shapes_that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto matrix = [&](std::size_t rows, std::size_t columns) {
        return sync(share(zeros<float>({rows, columns})), pool);
    };
    const auto vector = [&](std::size_t size) { return sync(share(zeros<float>({size})), pool); };
    const auto a = matrix(2, 3), b = matrix(3, 4), square = matrix(4, 4), row = vector(3);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"gemm", "[2, 3]", "[4, 4]"}, [&] { sync_on(gemm(a, square), home); });
    expect_refused(errc::shape_mismatch, {"[2, 3]", "[3, 4] transposed"},
                   [&] { sync_on(gemm(a, b, {.transpose_b = true}), home); });
    expect_refused(errc::shape_mismatch, {"bias", "[3]", "4 columns"}, [&] { sync_on(gemm(a, b, row), home); });
    expect_refused(errc::shape_mismatch, {"matrices", "[3]"}, [&] { sync_on(gemm(row, b), home); });
    expect_refused(errc::shape_mismatch, {"[4, 4]"}, [&] { sync_on(linear(a, square, std::nullopt), home); });
    auto out = sync(zeros<float>({2, 5}), pool);
    const ticket now = home.issued();
    expect_refused(errc::shape_mismatch, {"[2, 4]", "[2, 5]", GetParam().device},
                   [&] { gemm(home, *a, *b, nullptr, out); });
    EXPECT_EQ(home.issued(), now);
    EXPECT_GE(now, before);
}

TEST_P(gemms, with_memory_of_another_device_are_refused) {
    single_stream other(other_device());
    const auto theirs = sync(share(zeros<float>({3, 3})), other);
    const auto ours = sync(share(zeros<float>({3, 3})), pool);
    expect_refused(errc::invalid_argument, {"gemm on " + GetParam().device, GetParam().other_device, "gemm_tests.cpp"},
                   [&] { sync(gemm(ours, theirs), pool); });
}

}  // namespace sluice::conformance::gemm_tests
