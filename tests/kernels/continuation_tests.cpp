// SPDX-License-Identifier: Apache-2.0
// The library's operations as functions for and_then: .and_then(sum()), .and_then(gemm(b)), ...
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"
#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/fused_mlp.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/matvec.hpp"
#include "sluice/kernels/pooling.hpp"
#include "sluice/kernels/reduce.hpp"
#include "sluice/kernels/transpose.hpp"

namespace sluice::conformance::continuation_tests {
namespace {

class continuations : public conformance_test {
protected:
    shared_tensor<float> upload_shared(const floats& values, const shape& of) {
        return sync(share(upload(values, of)), pool);
    }

    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, continuations, testing::ValuesIn(enrolled_backends()), backend_name);

auto matrix() { return upload(floats{1, 5, 2, 8, 4, 4}, {2, 3}); }

}  // namespace

TEST_P(continuations, are_reductions) {
    const auto floats_of = [&](auto then) { return sync(matrix().and_then(then).and_then(download), pool); };
    EXPECT_EQ(floats_of(sum()), (floats{8, 16}));
    EXPECT_EQ(floats_of(sum(reduce_over::all)), floats{24});
    EXPECT_EQ(floats_of(mean(reduce_over::all)), floats{4});
    EXPECT_EQ(floats_of(sluice::max()), (floats{5, 8}));
    EXPECT_EQ(floats_of(sluice::min()), (floats{1, 4}));
    EXPECT_EQ(floats_of(argmax()), (std::vector<std::int64_t>{1, 0}));
    EXPECT_EQ(floats_of(argmax(reduce_over::all)), std::vector<std::int64_t>{3});
    EXPECT_EQ(sync(share(matrix()).and_then(sum()).and_then(download), pool), (floats{8, 16}));
}

TEST_P(continuations, change_types_and_places) {
    EXPECT_EQ(sync(matrix().and_then(transpose()).and_then(download), pool), (floats{1, 8, 5, 4, 2, 4}));
    EXPECT_EQ(sync(matrix().and_then(cast<int>()).and_then(download), pool), (std::vector<int>{1, 5, 2, 8, 4, 4}));
    EXPECT_EQ(sync(matrix().and_then(cast<half>()).and_then(cast<float>()).and_then(download), pool),
              (floats{1, 5, 2, 8, 4, 4}));
}

TEST_P(continuations, are_arithmetic_with_a_shared_operand) {
    const auto y = upload_shared(floats{1, 2, 3, 4, 5, 6}, {2, 3});
    EXPECT_EQ(sync(matrix().and_then(add(y)).and_then(download), pool), (floats{2, 7, 5, 12, 9, 10}));
    EXPECT_EQ(sync(matrix().and_then(subtract(y)).and_then(download), pool), (floats{0, 3, -1, 4, -1, -2}));
    EXPECT_EQ(sync(matrix().and_then(multiply(y)).and_then(download), pool), (floats{1, 10, 6, 32, 20, 24}));
    EXPECT_EQ(sync(matrix().and_then(scale(0.5)).and_then(scale(4)).and_then(download), pool),
              (floats{2, 10, 4, 16, 8, 8}));
    EXPECT_EQ(sync(upload(std::vector<int>{1, -2}).and_then(scale(3)).and_then(download), pool),
              (std::vector<int>{3, -6}));
    static_assert(!std::is_invocable_v<decltype(scale(0.5)), tensor<int>>, "a fraction of ints has no exact result");
}

TEST_P(continuations, refuse_a_factor_that_ints_cannot_hold) {
    const auto scaled_by = [&](auto factor) {
        return [this, factor] {
            static_cast<void>(sync(upload(std::vector<int>{1, -2}).and_then(scale(factor)).and_then(download), pool));
        };
    };
    expect_refused(errc::invalid_argument, {"5000000000", "2147483647"}, scaled_by(5'000'000'000));
    expect_refused(errc::invalid_argument, {"3000000000", "-2147483648"}, scaled_by(3'000'000'000u));
    EXPECT_NO_THROW(scaled_by(2'147'483'647ull)());
}

TEST_P(continuations, are_layers) {
    const auto weight = upload_shared(floats{1, 0, 0, 1, 1, 1}, {2, 3}), bias = upload_shared(floats{-20, 1}, {2});
    const auto b = upload_shared(floats{1, 0, 0, 1, 1, 1}, {3, 2});
    EXPECT_EQ(sync(matrix().and_then(gemm(b)).and_then(download), pool), (floats{3, 7, 12, 8}));
    EXPECT_EQ(sync(matrix().and_then(gemm(weight, {.transpose_b = true})).and_then(download), pool),
              (floats{1, 8, 8, 16}));
    EXPECT_EQ(sync(matrix().and_then(linear(weight, std::nullopt)).and_then(download), pool), (floats{1, 8, 8, 16}));
    EXPECT_EQ(sync(matrix().and_then(linear(weight, bias)).and_then(download), pool), (floats{-19, 9, -12, 17}));
    EXPECT_EQ(sync(share(matrix()).and_then(linear(weight, bias, activation::relu)).and_then(download), pool),
              (floats{0, 9, 0, 17}));
    EXPECT_EQ(sync(matrix().and_then(matvec(weight, bias, activation::relu)).and_then(download), pool),
              (floats{0, 9, 0, 17}));
    // Two operands and braces for no bias: the operation itself, and not a function.
    EXPECT_EQ(sync(linear(upload_shared(floats{1, 5, 2, 8, 4, 4}, {2, 3}), weight, {}).and_then(download), pool),
              (floats{1, 8, 8, 16}));
}

TEST_P(continuations, are_networks_in_one_command) {
    const auto network = sluice::sync(pack_mlp<half>({{16, 16, floats(256, 0.5f), {}, activation::relu},
                                                      {16, 4, floats(64, 1), {}, activation::none}}),
                                      pool);
    auto out = upload(std::vector<half>(16, half(1.f)), {1, 16}).and_then(fused_mlp(network)).and_then(cast<float>());
    EXPECT_EQ(sync(std::move(out).and_then(download), pool), floats(4, 128));
}

TEST_P(continuations, are_poolings) {
    const auto image = [] { return upload(floats{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 4}); };
    EXPECT_EQ(sync(image().and_then(max_pooling()).and_then(download), pool), (floats{6, 8}));
    EXPECT_EQ(sync(image().and_then(average_pooling({.window = {2, 4}})).and_then(download), pool), floats{4.5f});
}

TEST_P(continuations, are_used_repeatedly) {
    const auto halve = scale(0.5f);
    const auto add_one = add(upload_shared(floats{1, 1}, {2}));
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(sync(upload(floats{2, 4}).and_then(halve).and_then(add_one).and_then(download), pool),
                  (floats{2, 3}));
}

TEST_P(continuations, that_do_not_fit_are_refused_with_the_line_that_made_them) {
    const auto narrow = upload_shared(floats{1, 2}, {2, 1});
    expect_refused_here(errc::shape_mismatch, {"gemm", "[2, 3]"},
                        [&] { sync_on(matrix().and_then(gemm(narrow)), home); });
    expect_refused_here(errc::shape_mismatch, {"add", "[2, 3]"},
                        [&] { sync_on(matrix().and_then(add(narrow)), home); });
    expect_refused_here(errc::shape_mismatch, {"transpose", "[2]"},
                        [&] { sync_on(upload(floats{1, 2}).and_then(transpose()), home); });
}

}  // namespace sluice::conformance::continuation_tests
