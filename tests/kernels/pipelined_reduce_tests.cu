// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/pipelined_reduce.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"

namespace sluice::conformance::pipelined_reduce_tests {
namespace {

struct sum_of_squares {
    using value = unsigned long long;
    SLUICE_KERNEL value none() const { return 0; }
    SLUICE_KERNEL void add(value& sum, const unsigned* batch, std::size_t, std::size_t count, unsigned rank,
                           unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) sum += value{batch[i]} * batch[i];
    }
    SLUICE_KERNEL value combine(value a, value b) const { return a + b; }
};

// The largest element and its place.
struct peak {
    unsigned element;
    std::size_t at;
};
struct find_peak {
    using value = peak;
    SLUICE_KERNEL peak none() const { return {0, ~std::size_t{0}}; }
    SLUICE_KERNEL void add(peak& most, const unsigned* batch, std::size_t first, std::size_t count, unsigned rank,
                           unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) most = combine(most, {batch[i], first + i});
    }
    SLUICE_KERNEL peak combine(peak a, peak b) const {
        return a.element > b.element || (a.element == b.element && a.at < b.at) ? a : b;
    }
};

class pipelined_reductions : public conformance_test {
protected:
    template <typename Form>
    void expect_right(Form form, const char* name) {
        for (const pipelined_options& options : {pipelined_options{64, 1024, 1}, pipelined_options{64, 256, 5},
                                                 pipelined_options{128, 512, 300}, pipelined_options{96, 512, 2}}) {
            const std::size_t batch = options.batch_bytes / sizeof(unsigned);
            for (const std::size_t size : {std::size_t{0}, std::size_t{1}, batch, batch + 1, 1000 * batch - 3}) {
                SCOPED_TRACE(testing::Message() << name << " of " << size << ", " << options.threads << " threads");
                auto values = counting<unsigned>(size);
                for (auto& each : values) each %= 1000;
                unsigned long long expected = 0;
                for (const unsigned each : values) expected += 1ull * each * each;
                const auto in = submit_to(home, upload(values));
                auto sum = submit_to(home, full<unsigned long long>({1}, 77));
                pipelined_reduce(home, form, sum_of_squares{}, in, sum, options);
                ASSERT_EQ(contents(std::move(sum), home).front(), expected);
                if (size == 0) continue;

                const auto most = std::max_element(values.begin(), values.end());
                auto found = tensor<peak>(home, {1});
                pipelined_reduce(home, form, find_peak{}, in, found, options);
                const peak got = contents(std::move(found), home).front();
                ASSERT_EQ(got.element, *most);
                ASSERT_EQ(got.at, static_cast<std::size_t>(most - values.begin()));
            }
        }
    }

    bool is_before_hopper() const { return on.kind() == device_kind::cuda && on.properties().compute_capability < 90; }

    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, pipelined_reductions, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(pipelined_reductions, are_right_in_every_form_and_at_every_size) {
    expect_right(pipelined::plain_loads{}, "plain loads");
    expect_right(pipelined::one_stage{}, "one stage");
    expect_right(pipelined::n_stages<3>{}, "three stages");
    expect_right(pipelined::roles<2, 32>{}, "roles, a warp copies");
    expect_right(pipelined::roles_where<2, pipelined::even_ranks>{}, "even ranks copy");
    expect_right(pipelined::thread_scope<3>{}, "thread scope");
    expect_right(pipelined::warp_scope<2>{}, "warp scope");
    expect_right(pipelined::primitives<2>{}, "primitives");
    expect_right(pipelined::arrivals<3>{}, "arrivals");
    expect_right(pipelined::part<32, pipelined::two_stages, 32>{}, "two stages in a warp");
}

TEST_P(pipelined_reductions, are_right_with_bulk_copies) {
    if (is_before_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
    expect_right(pipelined::bulk<2>{}, "bulk");
}

TEST_P(pipelined_reductions, are_operations) {
    auto all = upload(std::vector<unsigned>{1, 2, 3}).and_then([](auto x) {
        return pipelined_reduce(pipelined::two_stages{}, sum_of_squares{}, std::move(x));
    });
    EXPECT_EQ(sync(std::move(all).and_then(download), pool), (std::vector<unsigned long long>{14}));
}

TEST_P(pipelined_reductions, into_more_than_one_element_are_refused_before_anything_is_submitted) {
    const auto in = sync(zeros<unsigned>({100}), pool);
    auto out = sync(zeros<unsigned long long>({2}), pool), one = sync(zeros<unsigned long long>({1}), pool);
    const ticket before = home.issued();
    expect_refused(errc::shape_mismatch, {"pipelined_reduce on " + GetParam().device, "[2]"},
                   [&] { pipelined_reduce(home, pipelined::two_stages{}, sum_of_squares{}, in, out); });
    expect_refused(errc::invalid_argument, {"pipelined_reduce on " + GetParam().device}, [&] {
        pipelined_reduce(home, pipelined::two_stages{}, sum_of_squares{}, in, one, {.threads = 100});
    });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::pipelined_reduce_tests
