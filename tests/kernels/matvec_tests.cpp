// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/matvec.hpp"

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "kernels/fused_mlp_reference.hpp"
#include "sluice/graph/executable_graph.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::matvec_tests {
namespace {

class matvecs : public conformance_test {
protected:
    template <typename T>
    void expect_agreement(std::size_t rows, std::size_t in, std::size_t outs, bool biased, activation after) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << in << " to " << outs << " of " << sizeof(T)
                                        << " bytes");
        const auto x = rounded<T>(fresh(rows * in)), weight = rounded<T>(fresh(outs * in)),
                   bias = rounded<T>(fresh(outs));
        const auto on_x = submit_to(home, upload(x, {rows, in})),
                   on_weight = submit_to(home, upload(weight, {outs, in}));
        const auto on_bias = submit_to(home, upload(bias));
        tensor<T> out(home, {rows, outs});
        const T poison(nan);
        fill_elements(home, *out.memory(), out.size(), &poison, sizeof(T));
        matvec(home, on_x, on_weight, biased ? &on_bias : nullptr, out, after);
        const auto expected = activated(
            product(as_floats(x), as_floats(weight), biased ? as_floats(bias) : floats{}, rows, outs, in, true), after,
            outs);
        expect_close(as_floats(contents(std::move(out), home)), expected, std::same_as<T, float> ? 1e-5 : 5e-3);
    }

    random_floats fresh{77};
    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, matvecs, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(matvecs, agree_with_the_reference_for_every_number_of_rows_and_ragged_sizes) {
    struct {
        std::size_t in, outs;
    } const sizes[] = {{1, 1}, {8, 4}, {7, 5}, {64, 10}, {784, 513}, {2056, 31}, {4099, 6}};
    for (std::size_t rows = 1; rows <= most_matvec_rows; ++rows) {
        for (const auto& [in, outs] : sizes) {
            expect_agreement<half>(rows, in, outs, rows % 2 == 0, activation::none);
            expect_agreement<bfloat16>(rows, in, outs, true, activation::relu);
            expect_agreement<float>(rows, in, outs, rows % 2 == 1, activation::none);
        }
    }
}

TEST_P(matvecs, agree_with_the_reference_after_every_activation) {
    for (const activation after :
         {activation::none, activation::relu, activation::gelu, activation::sigmoid, activation::tanh}) {
        expect_agreement<float>(3, 40, 21, true, after);
        expect_agreement<half>(1, 40, 21, true, after);
    }
}

// A kernel that may start early must not read what the one before it has yet to write. Each step moves all values up by
// one, between two tensors, so that one that was missed is seen.
TEST_P(matvecs, in_a_row_see_what_those_before_have_written) {
    constexpr std::size_t width = 512, steps = 50;
    floats moves(width * width);
    for (std::size_t i = 0; i < width; ++i) moves[(i + 1) % width * width + i] = 1;
    const auto weight = sync(upload(rounded<bfloat16>(moves), {width, width}), pool);
    floats start(width);
    for (std::size_t i = 0; i < width; ++i) start[i] = static_cast<float>(i % 251);
    auto x = sync(upload(rounded<bfloat16>(start), {1, width}), pool), y = sync(zeros<bfloat16>({1, width}), pool);
    const auto run = [&](stream there) {
        for (std::size_t i = 0; i < steps; ++i) {
            matvec(there, x, weight, nullptr, y);
            matvec(there, y, weight, nullptr, x);
        }
    };
    run(home);
    sync(record(on, run)(), pool);
    floats expected(width);
    for (std::size_t i = 0; i < width; ++i) expected[(i + 4 * steps) % width] = start[i];
    EXPECT_EQ(as_floats(contents(std::move(x), home)), expected);
}

TEST_P(matvecs, of_no_in_features_are_the_bias) {
    const auto x = sync(upload(floats{}, {2, 0}), pool), weight = sync(upload(floats{}, {3, 0}), pool),
               bias = sync(upload(floats{-1, 0.5f, 2}), pool);
    auto out = submit_to(home, full<float>({2, 3}, nan));
    matvec(home, x, weight, &bias, out, activation::relu);
    EXPECT_EQ(contents(std::move(out), home), (floats{0, 0.5f, 2, 0, 0.5f, 2}));
}

TEST_P(matvecs, are_operations) {
    auto layer = zip(upload(floats{1, 2}, {1, 2}), share(upload(floats{1, 0, 0, 1, 1, 1}, {3, 2})))
                     .and_then([](auto x, auto weight) { return matvec(std::move(x), std::move(weight)); });
    EXPECT_EQ(sync(std::move(layer).and_then(download), pool), (floats{1, 2, 3}));
}

TEST_P(matvecs, that_do_not_fit_are_refused_before_anything_is_submitted) {
    const auto x = sync(zeros<float>({2, 3}), pool), weight = sync(zeros<float>({4, 3}), pool);
    const auto wide = sync(zeros<float>({4, 5}), pool), many = sync(zeros<float>({9, 3}), pool);
    const auto bias = sync(zeros<float>({3}), pool);
    auto out = sync(zeros<float>({2, 4}), pool), wrong = sync(zeros<float>({2, 3}), pool);
    const ticket before = home.issued();
    expect_refused_here(errc::shape_mismatch, {"matvec", "[2, 3]", "[4, 5]"},
                        [&] { matvec(home, x, wide, nullptr, out); });
    expect_refused_here(errc::invalid_argument, {"9 rows"}, [&] { matvec(home, many, weight, nullptr, out); });
    expect_refused_here(errc::shape_mismatch, {"bias"}, [&] { matvec(home, x, weight, &bias, out); });
    expect_refused_here(errc::shape_mismatch, {"[2, 3]"}, [&] { matvec(home, x, weight, nullptr, wrong); });
    expect_refused_here(errc::invalid_argument, {"softmax"},
                        [&] { matvec(home, x, weight, nullptr, out, activation::softmax); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::matvec_tests
