// SPDX-License-Identifier: Apache-2.0
// Launches whose arguments are operations, and launches over what the kernel writes.
#include <stdexcept>
#include <vector>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "sluice/kernels/creation.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/fill.hpp"
#include "sluice/kernels/random.hpp"

namespace sluice::conformance::launch_operation_tests {
namespace {

CONFORMANCE_SUITE(launches_of_operations);

struct scale_by {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x, float by) const {
        if (float* const e = x.at(at)) *e *= by;
    }
};
struct add_scaled {
    SLUICE_KERNEL void operator()(index_1d at, float a, view<const float> x, disjoint_view<float> y) const {
        if (float* const e = y.at(at)) *e += a * x[at.value()];
    }
};
struct sum_and_difference {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> a, view<const float> b, disjoint_view<float> sum,
                                  disjoint_view<float> difference) const {
        if (float* const e = sum.at(at)) *e = a[at.value()] + b[at.value()];
        if (float* const e = difference.at(at)) *e = a[at.value()] - b[at.value()];
    }
};
struct number_elements {
    SLUICE_KERNEL void operator()(index_2d at, disjoint_matrix<unsigned> x) const {
        if (unsigned* const e = x.at(at)) *e = static_cast<unsigned>(at.row() * 100 + at.column());
    }
};
struct number_tiles {
    SLUICE_KERNEL void operator()(tile_index at, disjoint_tiles<unsigned> x) const {
        const auto tile = x.at(at);
        for (std::size_t r = 0; r < tile.rows(); ++r) {
            for (std::size_t c = 0; c < tile.columns(); ++c)
                tile(r, c) = static_cast<unsigned>(at.row() * 10 + at.column());
        }
    }
};

using floats = std::vector<float>;

TEST_P(launches_of_operations, submit_their_arguments_first) {
    round_robin pool(on, 3);
    EXPECT_EQ(sync(launch(scale_by{}, upload(floats{1, 2, 3}), 2.f).and_then(download), pool), (floats{2, 4, 6}));
    EXPECT_EQ(sync(launch(scale_by{}, each_written(), upload(floats{1, 2, 3}), 2.f).and_then(download), pool),
              (floats{2, 4, 6}));
    // A range smaller than the tensor.
    EXPECT_EQ(sync(launch(scale_by{}, each_of(shape{2}), upload(floats{1, 2, 3}), 2.f).and_then(download), pool),
              (floats{2, 4, 3}));
    // A value that an operation gives on the host.
    EXPECT_EQ(sync(launch(scale_by{}, upload(floats{1, 2}), value(3.f)).and_then(download), pool), (floats{3, 6}));
}

TEST_P(launches_of_operations, take_tensors_shared_tensors_and_numbers_beside_them) {
    round_robin pool(on, 3);
    const shared_tensor<float> x(sync(arange<float>(0, 70'001), pool));
    const floats got = sync(launch(add_scaled{}, 2.f, x, ones<float>({70'001})).and_then(download), pool);
    ASSERT_EQ(got.size(), 70'001u);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 1 + 2 * float(i)) << i;

    auto y = sync(ones<float>({3}), pool);
    auto operation = launch(add_scaled{}, -1.f, upload(floats{1, 2, 3}), std::move(y)).and_then(download);
    EXPECT_EQ(sync(std::move(operation), pool), (floats{0, -1, -2}));
    auto plain = launch(add_scaled{}, 1.f, sync(ones<float>({2}), pool), sync(ones<float>({2}), pool));
    EXPECT_EQ(sync(std::move(plain).and_then(download), pool), (floats{2, 2}));
}

TEST_P(launches_of_operations, of_large_parts_wait_for_all_of_them) {
    round_robin pool(on, 4);
    const std::size_t count = std::size_t{3} << 20;  // large enough for streams of their own
    auto operation = launch(add_scaled{}, 3.f, full<float>({count}, 2), full<float>({count}, 1)).and_then(download);
    EXPECT_EQ(sync(std::move(operation), pool), floats(count, 7));
}

TEST_P(launches_of_operations, run_over_matrices_and_tiles) {
    round_robin pool(on, 2);
    const auto matrix = sync(launch(number_elements{}, zeros<unsigned>({7, 5})).and_then(download), pool);
    auto in_tiles = zeros<unsigned>({7, 5}).transform([](auto x) { return std::move(x).partition({2, 2}); });
    auto whole =
        launch(number_tiles{}, std::move(in_tiles)).transform([](auto x) { return std::move(x).unpartition(); });
    const auto tiles = sync(std::move(whole).and_then(download), pool);
    ASSERT_EQ(matrix.size(), 35u);
    ASSERT_EQ(tiles.size(), 35u);
    for (std::size_t r = 0; r < 7; ++r) {
        for (std::size_t c = 0; c < 5; ++c) {
            EXPECT_EQ(matrix[r * 5 + c], r * 100 + c);
            EXPECT_EQ(tiles[r * 5 + c], r / 2 * 10 + c / 2);
        }
    }
    expect_refused_here(errc::shape_mismatch, {"number_elements"},
                        [&] { sync(launch(number_elements{}, each_written(), zeros<unsigned>({3})), pool); });
}

TEST_P(launches_of_operations, with_several_outputs_give_the_first_or_the_last) {
    round_robin pool(on, 2);
    const auto both = [] {
        return launch(sum_and_difference{}, each_of(shape{3}), upload(floats{5, 6, 7}), upload(floats{1, 2, 4}),
                      zeros<float>({3}), zeros<float>({3}));
    };
    EXPECT_EQ(sync(both().first().and_then(download), pool), (floats{6, 8, 11}));
    EXPECT_EQ(sync(last(both()).and_then(download), pool), (floats{4, 4, 3}));
    EXPECT_EQ(sync(launch(scale_by{}, both().last(), 2.f).and_then(download), pool), (floats{8, 8, 6}));
}

TEST_P(launches_of_operations, may_recover_inside_them) {
    round_robin pool(on, 2);
    int attempts = 0;
    auto input = retry(3, [&attempts] {
        if (++attempts < 3) throw std::runtime_error("planned");
        return upload(floats{1, 2});
    });
    EXPECT_EQ(sync(launch(scale_by{}, std::move(input), 5.f).and_then(download), pool), (floats{5, 10}));
    EXPECT_EQ(attempts, 3);
}

TEST_P(launches_of_operations, are_links_of_long_chains) {
    round_robin pool(on, 2);
    any_operation<tensor<float>> chain = ones<float>({4});
    for (int i = 0; i < 200; ++i) chain = launch(add_scaled{}, 1.f, ones<float>({4}), std::move(chain));
    EXPECT_EQ(sync(std::move(chain).and_then(download), pool), floats(4, 201));
}

TEST_P(launches_of_operations, fail_with_the_first_argument_that_fails) {
    round_robin pool(on, 2);
    const auto failing = [] {
        return upload(floats{1}).transform([](tensor<float> x) -> tensor<float> {
            if (x.size() == 1) throw std::runtime_error("planned");
            return x;
        });
    };
    EXPECT_THROW(sluice::sync(launch(add_scaled{}, 1.f, failing(), ones<float>({1})), pool), std::runtime_error);
    on.synchronize();
    EXPECT_EQ(bytes_in_use(), 0u);
}

TEST_P(launches_of_operations, refuse_a_tensor_that_was_moved_from) {
    round_robin pool(on, 2);
    expect_refused_here(errc::invalid_argument, {"scale_by", "moved"},
                        [&] { sync(launch(scale_by{}, each_written(), tensor<float>(), 1.f), pool); });
}

TEST(simulated_launches_of_operations, are_the_same_in_every_schedule) {
    const auto found = sim::explore(
        [] {
            std::vector<any_operation<tensor<float>>> both;
            both.push_back(launch(add_scaled{}, 2.f, arange<float>(0, 64), randn({64}, 7)));
            both.push_back(launch(scale_by{}, ones<float>({64}).and_then(fill(3.f)), 2.f));
            return launch(
                       add_scaled{}, -1.f, zip(linspace<float>(0, 1, 64), eye<float>(8)).first(),
                       zip(std::move(both)).transform([](std::vector<tensor<float>> all) { return std::move(all[0]); }))
                .and_then(download);
        },
        {.schedules = 200});
    found.require_clean();
}

}  // namespace
}  // namespace sluice::conformance::launch_operation_tests
