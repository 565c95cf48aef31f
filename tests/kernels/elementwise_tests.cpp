#include "sluice/kernels/elementwise.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/reference.hpp"

namespace sluice::conformance {
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
        const float* const where = x.device_data();
        auto y = sync(relu(std::move(x)), pool);
        EXPECT_EQ(y.shape(), of);
        EXPECT_EQ(y.device_data(), where);
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

TEST(activation_names, go_both_ways) {
    for (const activation each : {activation::none, activation::relu, activation::gelu, activation::sigmoid,
                                  activation::tanh, activation::softmax}) {
        EXPECT_EQ(activation_from_string(to_string(each)), each);
    }
    EXPECT_EQ(activation_from_string("identity"), activation::none);
    EXPECT_EQ(activation_from_string("linear"), activation::none);
    for (const char* unknown : {"", "ReLU", "relu ", "swish"}) EXPECT_EQ(activation_from_string(unknown), std::nullopt);
}

}  // namespace sluice::conformance
