// SPDX-License-Identifier: Apache-2.0
// NaN and infinities: the same answer whatever the kernel, the library, the number of rows and the device.
#include <string>

#include "conformance/backend.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/kernels/convolution.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/matvec.hpp"

namespace sluice::conformance::odd_numbers_tests {
namespace {

constexpr activation all_activations[] = {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                          activation::tanh};

// "nan", "inf", "-inf", or a number that is right.
std::string told(float got, double expected) {
    if (std::isnan(got)) return "nan";
    if (std::isinf(got)) return got > 0 ? "inf" : "-inf";
    const double slack = 2e-2 * std::fmax(1, std::fabs(expected));
    return std::isfinite(expected) && std::fabs(got - expected) <= slack ? "right" : std::to_string(got);
}

class odd_numbers : public conformance_test {
protected:
    // Of each element, what it is and what it should be.
    template <typename T>
    void expect_same(const std::vector<T>& got, const doubles& expected) {
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            const auto wanted = static_cast<float>(expected[i]);
            ASSERT_EQ(told(float{got[i]}, expected[i]), told(wanted, expected[i]))
                << "element " << i << " is " << float{got[i]} << ", not " << expected[i];
        }
    }

    // Rows of which the first has NaN, the last an infinity, and the one in the middle minus infinity.
    template <typename T>
    std::vector<T> odd_rows(std::size_t rows, std::size_t columns) {
        std::vector<T> made = rounded<T>(fresh(rows * columns));
        made[(rows - 1) * columns + 2] = T(infinity);
        made[rows / 2 * columns + 1] = T(-infinity);
        made[columns - 1] = T(nan);
        return made;
    }
    // All positive: an infinity keeps its sign.
    template <typename T>
    std::vector<T> positive(std::size_t size, float scale = 0.125f) {
        std::vector<T> made;
        for (const float each : fresh(size)) made.push_back(T((each + 1.1f) * scale));
        return made;
    }

    template <typename T>
    void expect_products(std::size_t rows, std::size_t columns, std::size_t inner) {
        const auto x = odd_rows<T>(rows, inner), weight = positive<T>(columns * inner),
                   bias = rounded<T>(fresh(columns));
        const auto on_x = submit_to(home, upload(x, {rows, inner})),
                   on_weight = submit_to(home, upload(weight, {columns, inner})),
                   on_bias = submit_to(home, upload(bias));
        for (const bool biased : {true, false}) {
            const doubles sums = product(as_floats(x), as_floats(weight), biased ? as_floats(bias) : floats{}, rows,
                                         columns, inner, true);
            for (const activation after : all_activations) {
                SCOPED_TRACE(testing::Message()
                             << rows << " rows, " << inner << " to " << columns << ", " << to_string(after)
                             << (biased ? ", biased, " : ", ") << sizeof(T) << " bytes");
                const doubles expected = activated(sums, after, columns);
                const auto* const with = biased ? &on_bias : nullptr;
                tensor<T> out(home, {rows, columns});
                gemm(home, on_x, on_weight, with, out, {.transpose_b = true, .after = after});
                expect_same(contents(std::move(out), home), expected);
                if (rows > most_matvec_rows) continue;
                tensor<T> by_vector(home, {rows, columns});
                matvec(home, on_x, on_weight, with, by_vector, after);
                expect_same(contents(std::move(by_vector), home), expected);
            }
        }
    }

    template <typename T>
    void expect_network(const std::vector<std::size_t>& widths, activation hidden) {
        SCOPED_TRACE(testing::Message() << testing::PrintToString(widths) << " " << to_string(hidden) << ", "
                                        << sizeof(T) << " bytes");
        constexpr std::size_t rows = 20;
        auto layers = random_network(fresh, widths, hidden, activation::none);
        for (mlp_layer& each : layers) {
            each.weight = positive<float>(each.weight.size(), 1 / static_cast<float>(each.in_features));
        }
        std::vector<T> inputs = rounded<T>(fresh(rows * widths.front(), 1e-2f));
        inputs[0] = T(infinity);
        inputs[17 * widths.front()] = T(-infinity);
        inputs[9 * widths.front()] = T(nan);
        const auto network = sluice::sync(pack_mlp<T>(layers), pool);
        const auto x = submit_to(home, upload(inputs, {rows, widths.front()}));
        tensor<T> out(home, {rows, widths.back()});
        fused_mlp(home, x, network, out);
        const doubles expected = network_reference(layers, inputs);
        const auto got = contents(std::move(out), home);
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(told(float{got[i]}, float{got[i]}), told(static_cast<float>(expected[i]), expected[i]))
                << "row " << i / widths.back();
        }
    }

    random_floats fresh{404};
    single_stream pool{on};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, odd_numbers, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(odd_numbers, go_through_products_alike_at_every_number_of_rows) {
    for (const std::size_t rows : {1, 2, 3, 16, 17, 64, 130}) {
        // Of rows that a copy engine takes, and of others.
        for (const auto& [columns, inner] : {std::pair<std::size_t, std::size_t>{7, 33}, {64, 48}}) {
            expect_products<float>(rows, columns, inner);
            expect_products<half>(rows, columns, inner);
            expect_products<bfloat16>(rows, columns, inner);
        }
    }
}

TEST_P(odd_numbers, go_through_convolutions_alike_by_every_way) {
    const shape x_shape{1, 1, 9, 40}, filter_shape{3, 1, 1, 1};
    floats x = fresh(x_shape.size());
    x[3] = nan;
    x[44] = infinity;
    x[100] = x[359] = -infinity;
    const floats filter{1, 0.5f, 2}, bias{0.25f, -1, 0};
    const auto on_x = submit_to(home, upload(x, x_shape));
    const auto on_filter = submit_to(home, upload(filter, filter_shape)), on_bias = submit_to(home, upload(bias));
    for (const activation after : all_activations) {
        doubles expected;
        for (std::size_t k = 0; k < 3; ++k) {
            for (const float each : x) expected.push_back(double{filter[k]} * each + bias[k]);
        }
        expected = activated(std::move(expected), after, 40);
        for (const bool by_library : {true, false}) {
            SCOPED_TRACE(std::string(to_string(after)) + (by_library ? " by the library" : " by im2col"));
            tensor<float> out(home, {1, 3, 9, 40});
            convolution(home, on_x, on_filter, &on_bias, out, {.after = after, .use_library = by_library});
            expect_same(contents(std::move(out), home), expected);
        }
    }
}

TEST_P(odd_numbers, go_through_networks_of_any_width_as_through_those_that_need_no_padding) {
    for (const std::vector<std::size_t>& widths :
         {std::vector<std::size_t>(4, 20), std::vector<std::size_t>(4, 32), std::vector<std::size_t>(4, 50),
          std::vector<std::size_t>(3, 100), std::vector<std::size_t>{64, 51, 64},
          std::vector<std::size_t>{128, 1, 33, 128}, std::vector<std::size_t>(3, 200), std::vector<std::size_t>(8, 101),
          std::vector<std::size_t>{5, 256, 130, 3}}) {
        for (const activation hidden : {activation::relu, activation::tanh}) {
            if (on.kind() == device_kind::cpu) expect_network<float>(widths, hidden);
            expect_network<half>(widths, hidden);
            expect_network<bfloat16>(widths, hidden);
        }
    }
}

TEST_P(odd_numbers, go_through_products_and_networks_alike) {
    // What a plan picks by the rows of a batch: the network as one command, or layer by layer.
    if (on.kind() != device_kind::cpu) GTEST_SKIP() << "networks of floats as one command are for CPUs";
    const auto layers = random_network(fresh, {40, 48, 8}, activation::relu, activation::none);
    const auto network = sluice::sync(pack_mlp<float>(layers), pool);
    for (const float odd : {nan, infinity, -infinity}) {
        floats inputs = fresh(20 * 40);
        inputs[7 * 40 + 3] = odd;
        const auto x = submit_to(home, upload(inputs, {20, 40}));
        tensor<float> fused(home, {20, 8}), hidden(home, {20, 48}), out(home, {20, 8});
        fused_mlp(home, x, network, fused);
        const auto weight = [&](const mlp_layer& of) {
            return submit_to(home, upload(of.weight, {of.out_features, of.in_features}));
        };
        const auto w0 = weight(layers[0]), w1 = weight(layers[1]);
        const auto b0 = submit_to(home, upload(layers[0].bias)), b1 = submit_to(home, upload(layers[1].bias));
        gemm(home, x, w0, &b0, hidden, {.transpose_b = true, .after = activation::relu});
        gemm(home, hidden, w1, &b1, out, {.transpose_b = true});
        const floats one = contents(std::move(fused), home), other = contents(std::move(out), home);
        for (std::size_t i = 0; i < one.size(); ++i) {
            EXPECT_EQ(told(one[i], one[i]), told(other[i], one[i])) << odd << " in a row, element " << i;
        }
    }
}

}  // namespace sluice::conformance::odd_numbers_tests
