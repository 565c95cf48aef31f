// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/elementwise.hpp"

#include <algorithm>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"

namespace sluice::conformance::elementwise_tests {
namespace {

constexpr activation elementwise[] = {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                      activation::tanh};

class activations : public conformance_test {
protected:
    floats apply(activation what, const floats& x) {
        return sync(upload(x).and_then([=](auto in) { return activate(std::move(in), what); }).and_then(download),
                    pool);
    }

    random_floats fresh{99};
    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, activations, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(activations, agree_with_the_reference_on_every_element) {
    for (const activation what : elementwise) {
        for (const std::size_t size : {1, 31, 256, 1000, 70'001}) {
            const floats x = fresh(size, 6);
            const doubles expected = activated(doubles(x.begin(), x.end()), what, size);
            const floats got = apply(what, x);
            ASSERT_EQ(got.size(), size);
            for (std::size_t i = 0; i < size; ++i)
                ASSERT_NEAR(got[i], expected[i], 2e-6) << to_string(what) << " of " << x[i];
        }
    }
}

TEST_P(activations, let_nan_through) {
    for (const activation what : elementwise) {
        const floats got = apply(what, {1, nan, -1});
        EXPECT_TRUE(std::isnan(got[1])) << to_string(what);
        EXPECT_FALSE(std::isnan(got[0]) || std::isnan(got[2])) << to_string(what);
    }
}

TEST_P(activations, saturate_at_infinity_and_far_out) {
    EXPECT_EQ(apply(activation::relu, {infinity, -infinity, 1e30f, -1e30f}), (floats{infinity, 0, 1e30f, 0}));
    EXPECT_EQ(apply(activation::sigmoid, {infinity, -infinity, 1e4f, -1e4f}), (floats{1, 0, 1, 0}));
    EXPECT_EQ(apply(activation::tanh, {infinity, -infinity, 1e4f, -1e4f}), (floats{1, -1, 1, -1}));
    const floats gelu_far_out = apply(activation::gelu, {infinity, 1e4f, -1e4f});
    EXPECT_EQ(gelu_far_out[0], infinity);
    EXPECT_EQ(gelu_far_out[1], 1e4f);
    EXPECT_EQ(gelu_far_out[2], 0);
}

TEST_P(activations, work_in_place_on_tensors_of_any_shape) {
    for (const shape& of : {shape{}, shape{2, 3, 4}, shape{5, 7}}) {
        auto x = sync(full<float>(of, -2), pool);
        const float* const address = x.device_data();
        auto y = sync(relu(std::move(x)), pool);
        EXPECT_EQ(y.shape(), of);
        EXPECT_EQ(y.device_data(), address);
        EXPECT_EQ(contents(std::move(y), pool.next()), floats(of.size(), 0));
    }
}

TEST_P(activations, have_operations_named_after_them) {
    const auto run = [&](auto operation) { return sync(std::move(operation).and_then(download), pool)[0]; };
    const auto one = [&] { return sync(full<float>({1}, 1), pool); };
    EXPECT_FLOAT_EQ(run(relu(one())), 1);
    EXPECT_FLOAT_EQ(run(gelu(one())), 0.8413447f);
    EXPECT_FLOAT_EQ(run(sigmoid(one())), 0.7310586f);
    EXPECT_FLOAT_EQ(run(sluice::tanh(one())), 0.7615942f);
}

TEST_P(activations, continue_an_operation_by_their_names) {
    auto one_by_one = upload(floats{-1, 1}).and_then(relu).and_then(gelu).and_then(sigmoid).and_then(download);
    EXPECT_FLOAT_EQ(sync(std::move(one_by_one), pool)[0], 0.5f);
    auto chosen = upload(floats{-2, 1}).and_then(activate(activation::tanh)).and_then(download);
    EXPECT_FLOAT_EQ(sync(std::move(chosen), pool)[1], 0.7615942f);
}

TEST_P(activations, that_continue_an_operation_are_refused_with_the_line_of_the_and_then) {
    expect_refused_here(errc::invalid_argument, {"relu on " + GetParam().device, "moved from"},
                        [&] { sync(value(tensor<float>()).and_then(relu), pool); });
    expect_refused_here(errc::invalid_argument, {"relu on " + GetParam().device, "moved from"},
                        [&] { sync(value(tensor<float>()).and_then(activate(activation::relu)), pool); });
}

TEST_P(activations, of_kind_none_submit_nothing) {
    single_stream alone(on);
    auto x = sync(full<float>({3}, 1), alone);
    const ticket before = alone.next().issued();
    sluice::activate(alone.next(), x, activation::none);
    EXPECT_EQ(alone.next().issued(), before);
}

TEST_P(activations, on_another_device_are_refused_with_the_line_that_asked) {
    single_stream other(other_device());
    auto theirs = sync(full<float>({3}, 1), other);
    expect_refused_here(errc::invalid_argument, {"on " + GetParam().device, GetParam().other_device},
                        [&] { sync(relu(std::move(theirs)), pool); });
}

class clamping : public conformance_test {
protected:
    floats clamped(const floats& x, float low, float high) {
        return sync(upload(x).and_then(clamp(low, high)).and_then(download), pool);
    }
    round_robin pool{on, 2};
};
INSTANTIATE_TEST_SUITE_P(, clamping, testing::ValuesIn(enrolled_backends()), backend_name);

TEST_P(clamping, moves_what_is_outside_to_the_nearer_bound) {
    EXPECT_EQ(clamped({-infinity, -1, 0, 3, 6, 7, infinity}, 0, 6), (floats{0, 0, 0, 3, 6, 6, 6}));
    EXPECT_EQ(clamped({-2, 5}, 1, 1), (floats{1, 1}));
    EXPECT_EQ(clamped({-5, infinity}, -infinity, infinity), (floats{-5, infinity}));
    EXPECT_TRUE(clamped({}, 0, 1).empty());
}

TEST_P(clamping, lets_nan_through) {
    const floats got = clamped({nan, 2}, 0, 1);
    EXPECT_TRUE(std::isnan(got[0]));
    EXPECT_EQ(got[1], 1);
}

TEST_P(clamping, reaches_every_element_of_ragged_sizes) {
    for (const std::size_t size : {1, 3, 4, 5, 1023, 70'001}) {
        const floats x = random_floats(7)(size, 3);
        floats expected = x;
        for (float& element : expected) element = std::clamp(element, -1.0f, 0.5f);
        EXPECT_EQ(clamped(x, -1, 0.5f), expected) << size;
    }
}

TEST_P(clamping, has_a_plain_form_that_works_in_place) {
    auto x = sync(full<float>({3, 5}, 9), pool);
    clamp(pool.next(), x, 0, 4);
    EXPECT_EQ(contents(std::move(x), pool.next()), floats(15, 4));
}

TEST_P(clamping, refuses_bounds_that_are_not_in_order) {
    for (const float low : {2.0f, nan}) {
        expect_refused_here(errc::invalid_argument, {"clamp", "low must be at most high"},
                            [&] { sync(full<float>({2}, 0).and_then(clamp(low, 1)), pool); });
    }
}

TEST(activation_names, go_both_ways) {
    for (const activation each : {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                  activation::tanh, activation::softmax}) {
        EXPECT_EQ(activation_from_string(to_string(each)), each);
    }
    EXPECT_EQ(activation_from_string("identity"), activation::none);
    EXPECT_EQ(activation_from_string("linear"), activation::none);
    for (const char* unknown : {"", "ReLU", "relu ", "swish"}) EXPECT_EQ(activation_from_string(unknown), std::nullopt);
}

}  // namespace sluice::conformance::elementwise_tests
