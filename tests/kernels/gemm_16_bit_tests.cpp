// SPDX-License-Identifier: Apache-2.0
// gemm of half and bfloat16, and of float with tf32.
#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"

namespace sluice::conformance::gemm_16_bit_tests {
namespace {

constexpr activation fused_activations[] = {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                            activation::tanh};

struct gemm_shape {
    std::size_t rows, columns, inner;
};
// Rows of the operands that the copy engine takes (multiples of 8), and such that it does not.
constexpr gemm_shape all_shapes[] = {{1, 1, 1},    {3, 10, 1},     {17, 31, 9},    {1, 64, 33},    {100, 10, 64},
                                     {16, 16, 16}, {64, 128, 784}, {129, 264, 72}, {257, 129, 65}, {300, 520, 200}};

template <typename T>
class operands {
public:
    operands(random_floats& fresh, const gemm_shape& of, bool transposed, single_stream& pool)
        : a(rounded<T>(fresh(of.rows * of.inner))),
          b(rounded<T>(fresh(of.inner * of.columns))),
          bias(rounded<T>(fresh(of.columns))),
          on_a(sync(share(upload(a, {of.rows, of.inner})), pool)),
          on_b(sync(share(upload(b, transposed ? shape{of.columns, of.inner} : shape{of.inner, of.columns})), pool)),
          on_bias(sync(share(upload(bias, {of.columns})), pool)) {}

    std::vector<T> a, b, bias;
    shared_tensor<T> on_a, on_b, on_bias;
};

class gemms_of_16_bits : public conformance_test {
protected:
    template <typename T>
    void expect_agreement(const gemm_shape& of, bool transposed, bool allow_tf32, double bound) {
        const operands<T> x(fresh, of, transposed, pool);
        for (const bool biased : {false, true}) {
            const doubles plain = product(as_floats(x.a), as_floats(x.b), biased ? as_floats(x.bias) : floats{},
                                          of.rows, of.columns, of.inner, transposed);
            for (const activation after : fused_activations) {
                SCOPED_TRACE(testing::Message()
                             << of.rows << "x" << of.columns << "x" << of.inner << (transposed ? " transposed" : "")
                             << (biased ? " biased " : " ") << to_string(after) << " of " << sizeof(T) << " bytes");
                auto out = submit_to(home, full<T>({of.rows, of.columns}, T(nan)));
                gemm(home, *x.on_a, *x.on_b, biased ? &*x.on_bias : nullptr, out, {transposed, after, allow_tf32});
                expect_close(as_floats(contents(std::move(out), home)), activated(plain, after, of.columns), bound);
            }
        }
    }

    random_floats fresh{99};
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, gemms_of_16_bits, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(gemms_of_16_bits, agree_with_the_reference_in_every_form) {
    for (const gemm_shape& of : all_shapes) {
        for (const bool transposed : {false, true}) {
            expect_agreement<half>(of, transposed, false, 1e-2);
            expect_agreement<bfloat16>(of, transposed, false, 1e-2);
        }
    }
}

TEST_P(gemms_of_16_bits, of_floats_may_round_the_factors_to_tf32) {
    for (const gemm_shape& of : all_shapes) {
        for (const bool transposed : {false, true}) expect_agreement<float>(of, transposed, true, 1e-3);
    }
}

TEST_P(gemms_of_16_bits, are_operations_and_layers) {
    const gemm_shape of{9, 16, 24};
    const operands<bfloat16> x(fresh, of, true, pool);
    const doubles expected =
        activated(product(as_floats(x.a), as_floats(x.b), as_floats(x.bias), of.rows, of.columns, of.inner, true),
                  activation::gelu, of.columns);
    auto layer = upload(x.a, {of.rows, of.inner}).and_then([&](auto in) {
        return linear(std::move(in), x.on_b, x.on_bias, activation::gelu);
    });
    expect_close(as_floats(sync(std::move(layer).and_then(download), pool)), expected, 1e-2);
    auto shared = gemm(x.on_a, x.on_b, x.on_bias, {.transpose_b = true, .after = activation::gelu});
    expect_close(as_floats(sync(std::move(shared).and_then(download), pool)), expected, 1e-2);
}

TEST_P(gemms_of_16_bits, run_inside_graphs_with_new_inputs_each_time) {
    const gemm_shape of{130, 72, 40};
    const operands<half> x(fresh, of, true, pool);
    const auto layer = [&](tensor<half> in) {
        return linear(std::move(in), x.on_b, x.on_bias, activation::gelu).and_then(download);
    };
    auto compiled = compile(pool, layer, host_input<half>({of.rows, of.inner}));
    for (int i = 0; i < 3; ++i) {
        const auto a = rounded<half>(fresh(of.rows * of.inner));
        const doubles expected =
            activated(product(as_floats(a), as_floats(x.b), as_floats(x.bias), of.rows, of.columns, of.inner, true),
                      activation::gelu, of.columns);
        expect_close(as_floats(sync(compiled(a), pool)), expected, 1e-2);
    }
}

TEST_P(gemms_of_16_bits, let_nan_and_infinity_through) {
    constexpr std::size_t size = 64;
    std::vector<half> a(size * size, half(1.0f)), b(size * size, half(1.0f));
    a[0] = half(nan);
    a[size] = half(infinity);
    auto out = zip(upload(a, {size, size}), upload(b, {size, size})).and_then([](auto x, auto y) {
        return gemm(std::move(x), std::move(y));
    });
    const floats got = as_floats(sync(std::move(out).and_then(download), pool));
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[size - 1]));
    EXPECT_EQ(got[size], infinity);
    EXPECT_EQ(got[2 * size], static_cast<float>(size));
}

TEST_P(gemms_of_16_bits, over_no_inner_dimension_are_the_bias) {
    const auto a = sync(upload(std::vector<half>(), {2, 0}), pool), b = sync(upload(std::vector<half>(), {0, 3}), pool);
    const auto bias = sync(upload(rounded<half>({-1, 0.5f, 2})), pool);
    auto out = submit_to(home, full<half>({2, 3}, half(nan)));
    gemm(home, a, b, &bias, out, {.after = activation::relu});
    EXPECT_EQ(as_floats(contents(std::move(out), home)), (floats{0, 0.5f, 2, 0, 0.5f, 2}));
}

TEST_P(gemms_of_16_bits, of_no_rows_are_empty) {
    const auto b = sync(share(upload(std::vector<half>(12), {3, 4})), pool);
    auto none = upload(std::vector<half>(), {0, 3}).and_then([=](auto a) { return gemm(std::move(a), b); });
    EXPECT_EQ(sync(std::move(none), pool).shape(), (shape{0, 4}));
}

TEST_P(gemms_of_16_bits, that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto matrix = [&](std::size_t rows, std::size_t columns) {
        return sync(share(upload(std::vector<bfloat16>(rows * columns), {rows, columns})), pool);
    };
    const auto a = matrix(2, 3), b = matrix(3, 4), square = matrix(4, 4);
    auto out = submit_to(home, full<bfloat16>({2, 4}, bfloat16(0.0f)));
    const ticket before = home.issued();
    expect_refused(errc::shape_mismatch, {"gemm", "[2, 3]", "[4, 4]"}, [&] { gemm(home, *a, *square, nullptr, out); });
    expect_refused(errc::shape_mismatch, {"[2, 4]", "[4, 4]"}, [&] { gemm(home, *square, *square, nullptr, out); });
    expect_refused(errc::invalid_argument, {"softmax", GetParam().device},
                   [&] { gemm(home, *a, *b, nullptr, out, {.after = activation::softmax}); });
    const auto& itself = out;
    expect_refused(errc::invalid_argument, {"operand"}, [&] { gemm(home, itself, *square, nullptr, out); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::gemm_16_bit_tests
