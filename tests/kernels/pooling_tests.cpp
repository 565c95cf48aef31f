// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/pooling.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/image_reference.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::pooling_tests {
namespace {

struct pooling_case {
    shape x;
    pooling_options options = {};
};
const pooling_case all_cases[] = {
    {{1, 1, 1, 1}, {.window = {1, 1}}},
    {{2, 3, 8, 8}},
    {{2, 3, 7, 9}},  // what is left over at the far edges is no output's
    {{3, 2, 5, 11}, {.window = {3, 2}, .stride = size_2d{1, 3}}},
    {{1, 5, 6, 6}, {.window = {3, 3}, .stride = size_2d{2, 2}, .padding = {1, 1}}},
    {{2, 2, 1, 4}, {.window = {3, 4}, .stride = size_2d{1, 1}, .padding = {2, 3}}},
    {{1, 2, 9, 4}, {.window = {2, 2}, .stride = size_2d{5, 7}}},
    {{70, 33, 12, 10}, {.window = {12, 10}}},
    {{1, 2, 40, 50}, {.window = {17, 19}, .stride = size_2d{3, 1}}},
    {{1, 1, 300, 200}, {.window = {5, 7}, .stride = size_2d{2, 1}, .padding = {2, 3}}},
};

class poolings : public conformance_test {
protected:
    void expect_right(pooling_case of, bool is_max) {
        const floats x = fresh(of.x.size());
        const shape out_shape = pooled(of.x, of.options);
        const auto on_x = sync(upload(x, of.x), pool);
        const doubles expected = pooling_reference(x, of.x, out_shape, of.options, is_max);
        for (const bool by_library : {true, false}) {
            SCOPED_TRACE(to_string(of.x) + " to " + to_string(out_shape) + (by_library ? "" : " by our kernel"));
            of.options.use_library = by_library;
            auto out = submit_to(home, full<float>(out_shape, nan));
            if (is_max) {
                max_pooling(home, on_x, out, of.options);
            } else {
                average_pooling(home, on_x, out, of.options);
            }
            expect_close(contents(std::move(out), home), expected, is_max ? 0 : 1e-5);
        }
    }

    random_floats fresh{78};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, poolings, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(poolings, of_maxima_agree_with_the_reference) {
    for (const pooling_case& each : all_cases) expect_right(each, true);
}

TEST_P(poolings, of_averages_agree_with_the_reference_with_and_without_the_padding) {
    for (pooling_case each : all_cases) {
        expect_right(each, false);
        each.options.counts_padding = true;
        expect_right(each, false);
    }
}

TEST_P(poolings, are_operations_on_owned_and_shared_images) {
    const floats x = fresh(2 * 3 * 6 * 6);
    const shape of{2, 3, 6, 6};
    auto owned = upload(x, of).and_then([](auto in) { return max_pooling(std::move(in)); });
    expect_close(sync(std::move(owned).and_then(download), pool), pooling_reference(x, of, {2, 3, 3, 3}, {}, true), 0);
    const auto shared_x = sync(share(upload(x, of)), pool);
    auto out = sync(average_pooling(shared_x, {.window = {6, 6}}), pool);
    EXPECT_EQ(out.shape(), (shape{2, 3, 1, 1}));
    expect_close(contents(std::move(out), home), pooling_reference(x, of, {2, 3, 1, 1}, {.window = {6, 6}}, false));
}

TEST_P(poolings, make_nan_of_windows_with_nan_and_of_no_others) {
    const shape of{1, 1, 4, 6};
    for (const bool by_library : {true, false}) {
        for (const bool first : {true, false}) {
            floats x = fresh(of.size());
            x[first ? 2 * 6 + 2 : 3 * 6 + 3] = nan;  // of the window down and in the middle: its first pixel, its last
            const pooling_options options{.use_library = by_library};
            const auto max = sync(
                upload(x, of).and_then([=](auto in) { return max_pooling(std::move(in), options); }).and_then(download),
                pool);
            const auto average = sync(upload(x, of)
                                          .and_then([=](auto in) { return average_pooling(std::move(in), options); })
                                          .and_then(download),
                                      pool);
            for (std::size_t i = 0; i < 6; ++i) {
                EXPECT_EQ(std::isnan(max[i]), i == 4) << i;
                EXPECT_EQ(std::isnan(average[i]), i == 4) << i;
            }
        }
    }
}

TEST_P(poolings, of_infinities_are_infinite) {
    const auto pool_of = [&](float value, bool by_library) {
        return sync(full<float>({1, 1, 3, 3}, value)
                        .and_then([=](auto in) {
                            return max_pooling(std::move(in),
                                               {.window = {3, 3}, .padding = {1, 1}, .use_library = by_library});
                        })
                        .and_then(download),
                    pool);
    };
    for (const bool by_library : {true, false}) {
        EXPECT_EQ(pool_of(infinity, by_library), floats{infinity});
        EXPECT_EQ(pool_of(-1e30f, by_library), floats{-1e30f});  // the padding's zeros are no part of it
        EXPECT_EQ(pool_of(-infinity, by_library), floats{-infinity});
    }
}

TEST_P(poolings, take_a_positive_zero_as_larger_than_a_negative_one) {
    for (const bool by_library : {true, false}) {
        for (std::size_t place = 0; place < 4; ++place) {
            floats x(4, -0.0f);
            x[place] = 0.0f;
            auto largest = upload(x, {1, 1, 2, 2}).and_then([=](auto in) {
                return max_pooling(std::move(in), {.use_library = by_library});
            });
            EXPECT_FALSE(std::signbit(sync(std::move(largest).and_then(download), pool)[0])) << place;
        }
    }
}

TEST_P(poolings, of_no_images_submit_nothing) {
    const auto none = sync(share(zeros<float>({0, 2, 4, 4})), pool);
    const ticket before = home.issued();
    EXPECT_EQ(submit_to(home, max_pooling(none)).shape(), (shape{0, 2, 2, 2}));
    EXPECT_EQ(home.issued(), before);
}

TEST_P(poolings, that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto of = [&](const shape& shape) { return sync(share(zeros<float>(shape)), pool); };
    const auto x = of({1, 2, 4, 4}), matrix = of({4, 4}), flat = of({1, 2, 0, 4});
    auto same = sync(zeros<float>({1, 1, 2, 2}), pool), out = sync(zeros<float>({1, 2, 2, 3}), pool);
    const ticket before = home.issued();
    const auto refused = [&](errc code, const pooling_options& options, std::initializer_list<std::string> words) {
        expect_refused(code, words, [&] { sync_on(max_pooling(x, options), home); });
        expect_refused(code, words, [&] { sync_on(average_pooling(x, options), home); });
    };
    expect_refused_here(errc::shape_mismatch, {"pooling", "[4, 4]"}, [&] { sync_on(max_pooling(matrix), home); });
    expect_refused(errc::shape_mismatch, {"[1, 2, 0, 4]"}, [&] { sync_on(max_pooling(flat), home); });
    expect_refused(errc::shape_mismatch, {"[1, 2, 2, 2]", "[1, 2, 2, 3]", GetParam().device},
                   [&] { max_pooling(home, *x, out); });
    refused(errc::shape_mismatch, {.window = {5, 2}}, {"5 x 2", "[1, 2, 4, 4]"});
    refused(errc::invalid_argument, {.window = {0, 2}}, {"window of 0", "1 to 65535"});
    refused(errc::invalid_argument, {.window = {65'536, 2}}, {"window of 65536"});
    refused(errc::invalid_argument, {.stride = size_2d{1, 0}}, {"stride of 0"});
    refused(errc::invalid_argument, {.padding = {0, 2}}, {"padding of 2", "less than the window's 2"});
    expect_refused(errc::invalid_argument, {"input"}, [&] { max_pooling(home, same, same, {.window = {1, 1}}); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::pooling_tests
