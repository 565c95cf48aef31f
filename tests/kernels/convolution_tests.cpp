// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/convolution.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/image_reference.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/pooling.hpp"

namespace sluice::conformance::convolution_tests {
namespace {

struct convolution_case {
    shape x;
    shape filter;
    convolution_options options = {};
};
const convolution_case all_cases[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}},
    {{2, 3, 7, 5}, {4, 3, 3, 3}},
    {{1, 1, 3, 3}, {1, 1, 3, 3}},
    {{3, 2, 9, 11}, {5, 2, 2, 4}},
    {{2, 16, 8, 8}, {32, 16, 3, 3}, {.padding = {1, 1}}},
    {{2, 3, 7, 5}, {4, 3, 3, 3}, {.stride = {2, 3}}},
    {{2, 3, 8, 9}, {4, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{1, 2, 12, 13}, {3, 2, 3, 2}, {.padding = {2, 1}, .dilation = {3, 4}}},
    {{2, 1, 10, 10}, {3, 1, 5, 5}, {.stride = {3, 1}, .padding = {4, 2}, .dilation = {2, 1}}},
    {{1, 2, 2, 3}, {2, 2, 2, 2}, {.padding = {3, 3}}},                        // windows of padding alone
    {{3, 4, 6, 6}, {6, 2, 3, 3}, {.padding = {1, 1}, .groups = 2}},           // groups of several channels and filters
    {{2, 5, 7, 6}, {10, 1, 3, 3}, {.stride = {2, 1}, .groups = 5}},           // each channel by itself
    {{2, 6, 5, 5}, {9, 2, 1, 1}, {.groups = 3}},                              // and at addresses that are not aligned
    {{4, 33, 6, 7}, {65, 33, 1, 1}},                                          // a plain product
    {{300, 3, 17, 19}, {7, 3, 3, 3}, {.padding = {1, 1}}},                    // several passes on a CPU
    {{1, 2, 300, 280}, {3, 2, 5, 3}, {.stride = {1, 2}, .padding = {2, 0}}},  // one image is more than a pass
    // For workers of a CPU together, or in blocks of channels there, or both.
    {{1, 32, 30, 31}, {130, 32, 3, 3}, {.padding = {1, 1}}},
    {{2, 20, 40, 40}, {40, 20, 3, 3}, {.stride = {1, 2}}},
    {{1, 64, 40, 40}, {256, 16, 1, 1}, {.groups = 4}},
    {{1, 24, 40, 37}, {24, 1, 3, 3}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 24}},
    {{3, 13, 30, 30}, {13, 1, 5, 5}, {.padding = {2, 2}, .groups = 13}},
    {{2, 200, 80, 80}, {200, 1, 3, 3}, {.groups = 200}},
};

std::string text_of(const convolution_case& of) {
    return to_string(of.x) + " with " + to_string(of.filter) + (of.options.use_library ? "" : " by im2col");
}

class convolutions : public conformance_test {
protected:
    shared_tensor<float> upload_shared(const floats& values, const shape& of) {
        return sync(share(upload(values, of)), pool);
    }

    // By the library and without, with bias and without, and with these activations.
    void expect_right(convolution_case of, std::initializer_list<activation> activations) {
        const shape out_shape = convolved(of.x, of.filter, of.options);
        const floats x = fresh(of.x.size()), filter = fresh(of.filter.size()), bias = fresh(of.filter[0]);
        const auto on_x = upload_shared(x, of.x), on_filter = upload_shared(filter, of.filter),
                   on_bias = upload_shared(bias, {of.filter[0]});
        for (const bool biased : {false, true}) {
            const doubles plain =
                convolution_reference(x, of.x, filter, of.filter, biased ? bias : floats{}, out_shape, of.options);
            for (const bool by_library : {true, false}) {
                for (const activation after : activations) {
                    of.options.use_library = by_library;
                    of.options.after = after;
                    SCOPED_TRACE(text_of(of) + (biased ? " biased " : " ") + std::string(to_string(after)));
                    auto out = submit_to(home, full<float>(out_shape, nan));
                    convolution(home, *on_x, *on_filter, biased ? &*on_bias : nullptr, out, of.options);
                    expect_close(contents(std::move(out), home), activated(plain, after, out_shape[3]));
                }
            }
        }
    }

    random_floats fresh{77};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, convolutions, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(convolutions, agree_with_the_reference_over_ragged_shapes) {
    for (const convolution_case& each : all_cases) expect_right(each, {activation::none, activation::relu});
}

TEST_P(convolutions, end_with_every_activation) {
    expect_right(all_cases[1], {activation::gelu, activation::sigmoid, activation::tanh});
}

TEST_P(convolutions, are_operations_on_owned_and_shared_operands) {
    const shape x_shape{2, 2, 5, 5}, filter_shape{3, 2, 3, 3};
    const floats x = fresh(x_shape.size()), filter = fresh(filter_shape.size()), bias = fresh(3);
    const convolution_options options{.padding = {1, 1}};
    const shape out_shape = convolved(x_shape, filter_shape, options);
    auto owned = zip(upload(x, x_shape), upload(filter, filter_shape)).and_then([=](auto in, auto weights) {
        return convolution(std::move(in), std::move(weights), options);
    });
    expect_close(sync(std::move(owned).and_then(download), pool),
                 convolution_reference(x, x_shape, filter, filter_shape, {}, out_shape, options));
    const auto on_filter = upload_shared(filter, filter_shape), on_bias = upload_shared(bias, {3});
    auto biased =
        upload(x, x_shape).and_then([=](auto in) { return convolution(std::move(in), on_filter, on_bias, options); });
    const auto out = sync(std::move(biased), pool);
    EXPECT_EQ(out.shape(), out_shape);
}

TEST_P(convolutions, of_several_forms_run_side_by_side_on_several_streams) {
    round_robin many(on, 4);
    std::vector<device_future<pending<floats>>> futures;
    std::vector<doubles> expected;
    for (std::size_t i = 0; i < 40; ++i) {
        const shape x_shape{1 + i % 3, 2, 6 + i % 5, 7}, filter_shape{1 + i % 4, 2, 1 + i % 3, 2};
        const convolution_options options{.stride = {1, 1 + i % 2}, .use_library = i % 4 != 3};
        const floats x = fresh(x_shape.size()), filter = fresh(filter_shape.size());
        expected.push_back(convolution_reference(x, x_shape, filter, filter_shape, {},
                                                 convolved(x_shape, filter_shape, options), options));
        auto one = zip(upload(x, x_shape), upload(filter, filter_shape)).and_then([=](auto in, auto weights) {
            return convolution(std::move(in), std::move(weights), options);
        });
        futures.push_back(spawn(std::move(one).and_then(download), many));
    }
    for (std::size_t i = 0; i < futures.size(); ++i) expect_close(std::move(futures[i]).get(), expected[i]);
}

TEST_P(convolutions, run_inside_a_compiled_graph) {
    const shape x_shape{3, 2, 8, 8}, filter_shape{4, 2, 3, 3}, out_shape{3, 4, 8, 8};
    const floats filter = fresh(filter_shape.size()), bias = fresh(4);
    const auto on_filter = upload_shared(filter, filter_shape), on_bias = upload_shared(bias, {4});
    for (const bool by_library : {true, false}) {
        SCOPED_TRACE(by_library ? "by the library" : "by im2col");
        const convolution_options options{.padding = {1, 1}, .after = activation::relu, .use_library = by_library};
        const auto fast = compile(
            on,
            [=](tensor<float> x) {
                return convolution(std::move(x), on_filter, on_bias, options)
                    .and_then([=](auto image) { return max_pooling(std::move(image), {.use_library = by_library}); })
                    .and_then(download);
            },
            host_input<float>(x_shape));
        for (int round = 0; round < 3; ++round) {
            const floats x = fresh(x_shape.size());
            const doubles convolved_x = activated(
                convolution_reference(x, x_shape, filter, filter_shape, bias, out_shape, options), activation::relu, 8);
            const floats image(convolved_x.begin(), convolved_x.end());
            expect_close(sync(fast(x), pool), pooling_reference(image, out_shape, {3, 4, 4, 4}, {}, true));
        }
    }
}

TEST_P(convolutions, let_nan_and_infinity_through_where_their_windows_are_and_nowhere_else) {
    const shape x_shape{1, 2, 9, 9}, filter_shape{2, 2, 3, 3};
    const auto on_filter = upload_shared(fresh(filter_shape.size()), filter_shape);
    for (const bool by_library : {true, false}) {
        for (const float poison : {nan, infinity}) {
            floats x = fresh(x_shape.size());
            x[4 * 9 + 5] = poison;  // of channel 0
            const floats out = sync(upload(x, x_shape)
                                        .and_then([&](auto in) {
                                            return convolution(std::move(in), on_filter, {.use_library = by_library});
                                        })
                                        .and_then(download),
                                    pool);
            for_each_output(
                {1, 2, 7, 7}, [&](std::size_t i, std::size_t, std::size_t, std::size_t y, std::size_t at_x) {
                    const bool is_in_window = y >= 2 && y <= 4 && at_x >= 3 && at_x <= 5;
                    EXPECT_EQ(std::isfinite(out[i]), !is_in_window) << y << ", " << at_x << " of " << poison;
                });
        }
    }
}

TEST_P(convolutions, of_no_images_or_no_filters_submit_nothing) {
    const auto none = sync(share(zeros<float>({0, 2, 4, 4})), pool),
               some = sync(share(zeros<float>({1, 2, 4, 4})), pool);
    const auto filter = sync(share(zeros<float>({3, 2, 3, 3})), pool),
               no_filter = sync(share(zeros<float>({0, 2, 3, 3})), pool);
    const ticket before = home.issued();
    EXPECT_EQ(submit_to(home, convolution(none, filter)).shape(), (shape{0, 3, 2, 2}));
    EXPECT_EQ(submit_to(home, convolution(some, no_filter)).shape(), (shape{1, 0, 2, 2}));
    EXPECT_EQ(home.issued(), before);
}

TEST_P(convolutions, of_images_without_channels_are_the_bias) {
    const auto x = sync(upload(floats{}, {2, 0, 4, 4}), pool), filter = sync(upload(floats{}, {3, 0, 3, 3}), pool),
               bias = sync(upload(floats{-1, 0.5f, 2}), pool);
    EXPECT_EQ(convolution_workspace_bytes(on, x.shape(), filter.shape()), 0u);
    for (const activation after : {activation::none, activation::relu, activation::sigmoid}) {
        for (const bool biased : {false, true}) {
            doubles sums(24, 0);
            for (std::size_t i = 0; biased && i < 24; ++i) sums[i] = std::array{-1.0, 0.5, 2.0}[i / 4 % 3];
            auto out = submit_to(home, full<float>({2, 3, 2, 2}, nan));
            convolution(home, x, filter, biased ? &bias : nullptr, out, {.after = after});
            expect_close(contents(std::move(out), home), activated(sums, after, 2));
        }
    }
}

TEST_P(convolutions, tell_how_much_of_the_workspace_they_take) {
    const shape x{2, 3, 20, 20}, filter{4, 3, 3, 3};
    const std::size_t columns = 3 * 3 * 3 * 18 * 18 * sizeof(float);
    EXPECT_GE(convolution_workspace_bytes(on, x, filter, {.use_library = false}), columns);
    EXPECT_LE(convolution_workspace_bytes(on, x, filter),
              convolution_workspace_bytes(on, x, filter, {.use_library = false}));
    EXPECT_EQ(convolution_workspace_bytes(on, {0, 3, 20, 20}, filter), 0u);
    expect_refused_here(errc::shape_mismatch, {"convolution on " + GetParam().device},
                        [&] { static_cast<void>(convolution_workspace_bytes(on, {20, 20}, filter)); });
}

// A stream begins without scratch memory, and takes what the shapes need when they come.
TEST_P(convolutions, take_no_memory_before_their_first_call) {
    runtime machine(GetParam().options);
    device& there = machine.find(GetParam().device);
    single_stream alone(there);
    static_cast<void>(alone.next());
    EXPECT_EQ(there.device_pool().usage().in_use_bytes, 0u);
    for (const std::size_t side : {5u, 40u, 9u}) {
        const auto ones = sluice::sync(share(full<float>({1, 1, 3, 3}, 1)), alone);
        const auto y = sluice::sync(full<float>({1, 1, side, side}, 2).and_then([&](auto x) {
            return convolution(shared_tensor<float>(std::move(x)), ones).and_then(download);
        }),
                                    alone);
        EXPECT_EQ(y, std::vector<float>((side - 2) * (side - 2), 18)) << side;
    }
}

TEST_P(convolutions, of_shapes_that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto of = [&](const shape& shape) { return sync(share(zeros<float>(shape)), pool); };
    const auto x = of({1, 4, 5, 6}), filter = of({2, 4, 3, 3}), matrix = of({5, 6}), other = of({2, 3, 3, 3}),
               large = of({2, 4, 7, 3}), hollow = of({2, 4, 0, 3}), bias = of({3});
    auto out = sync(zeros<float>({1, 2, 3, 5}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"convolution", "[5, 6]"},
                        [&] { sync_on(convolution(matrix, filter), home); });
    expect_refused(errc::shape_mismatch, {"[2, 3, 3, 3]", "3 channels", "have 4"},
                   [&] { sync_on(convolution(x, other), home); });
    expect_refused(errc::shape_mismatch, {"3 groups", "4 channels"},
                   [&] { sync_on(convolution(x, filter, {.groups = 3}), home); });
    expect_refused(errc::shape_mismatch, {"2 filters", "4 groups"},
                   [&] { sync_on(convolution(x, filter, {.groups = 4}), home); });
    expect_refused(errc::shape_mismatch, {"[2, 4, 7, 3]", "do not fit", "[1, 4, 5, 6]"},
                   [&] { sync_on(convolution(x, large), home); });
    expect_refused(errc::shape_mismatch, {"dilated by 3 x 1"},
                   [&] { sync_on(convolution(x, filter, {.dilation = {3, 1}}), home); });
    expect_refused(errc::shape_mismatch, {"need pixels"}, [&] { sync_on(convolution(x, hollow), home); });
    expect_refused(errc::shape_mismatch, {"bias", "[3]", "2 filters"},
                   [&] { sync_on(convolution(x, filter, bias), home); });
    expect_refused(errc::shape_mismatch, {"[1, 2, 3, 4]", "[1, 2, 3, 5]", GetParam().device},
                   [&] { convolution(home, *x, *filter, nullptr, out); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(convolutions, with_impossible_options_are_refused_before_anything_is_submitted) {
    auto x = sync(zeros<float>({1, 1, 5, 5}), pool);
    const auto filter = sync(share(zeros<float>({1, 1, 1, 1})), pool);
    const ticket before = home.issued();
    const auto refused = [&](const convolution_options& options, std::initializer_list<std::string> words) {
        expect_refused(errc::invalid_argument, words,
                       [&] { static_cast<void>(convolved(x.shape(), filter->shape(), options)); });
        auto out = sync(uninitialized<float>({1, 1, 5, 5}), pool);
        expect_refused(errc::invalid_argument, words, [&] { convolution(home, x, *filter, nullptr, out, options); });
    };
    refused({.stride = {0, 1}}, {"stride of 0 x 1", "1 to 65535"});
    refused({.stride = {1, 65'536}}, {"stride of 1 x 65536"});
    refused({.dilation = {1, 0}}, {"dilation of 1 x 0"});
    refused({.padding = {65'536, 0}}, {"padding of 65536 x 0", "0 to 65535"});
    refused({.groups = 0}, {"0 groups"});
    refused({.after = activation::softmax}, {"softmax"});
    expect_refused(errc::invalid_argument, {"operand"}, [&] { convolution(home, x, *filter, nullptr, x); });
    EXPECT_EQ(home.issued(), before);
}

TEST_P(convolutions, with_memory_of_another_device_are_refused) {
    single_stream other(other_device());
    const auto theirs = sync(share(zeros<float>({1, 1, 3, 3})), other);
    const auto ours = sync(share(zeros<float>({1, 1, 3, 3})), pool);
    for (const bool by_library : {true, false}) {
        expect_refused(errc::invalid_argument, {GetParam().device, GetParam().other_device},
                       [&] { sync(convolution(theirs, ours, {.use_library = by_library}), pool); });
    }
}

}  // namespace sluice::conformance::convolution_tests
