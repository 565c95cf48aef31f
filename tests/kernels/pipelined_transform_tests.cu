// SPDX-License-Identifier: Apache-2.0
#include "sluice/kernels/pipelined_transform.hpp"

#include <gtest/gtest.h>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"

namespace sluice::conformance::pipelined_transform_tests {
namespace {

// Reads across the batch, so that an element that was not there yet, or was overwritten, is seen.
struct reverse_and_add {
    SLUICE_KERNEL void operator()(const unsigned* batch, unsigned* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[count - 1 - i] + 1;
    }
};

struct halve_bytes {
    SLUICE_KERNEL void operator()(const unsigned char* batch, unsigned char* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = static_cast<unsigned char>(batch[i] / 2);
    }
};

struct widen {
    SLUICE_KERNEL void operator()(const unsigned char* batch, double* out, std::size_t count, unsigned rank,
                                  unsigned threads) const {
        for (std::size_t i = rank; i < count; i += threads) out[i] = batch[count - 1 - i] / 2.0;
    }
};

class pipelined_transforms : public conformance_test {
protected:
    template <typename T, typename Form, typename Function>
    std::vector<T> run(Form form, Function function, const std::vector<T>& values, const pipelined_options& options) {
        const auto in = submit_to(home, upload(values));
        auto out = tensor<T>(home, in.shape());
        if (out.size() != 0) {
            home.fill({"poison", std::array{memory_access{out.memory(), access_mode::write}}},
                      {out.device_data(), 0xee, out.size_bytes()});
        }
        pipelined_transform(home, form, function, in, out, options);
        return contents(std::move(out), home);
    }

    template <typename Form>
    void expect_right(Form form, const char* name) {
        // A block has at least 48 KiB of shared memory, more on most GPUs.
        const pipelined_options usual =
            pipelined::shared_bytes<Form>(256, 8192) <= 48 * 1024 ? pipelined_options{} : pipelined_options{256, 1024};
        for (const pipelined_options& options :
             {usual, pipelined_options{64, 1024, 3}, pipelined_options{128, 4096, 1}}) {
            const std::size_t batch = options.batch_bytes / sizeof(unsigned);
            for (const std::size_t size : {std::size_t{1}, std::size_t{3}, batch - 1, batch, batch + 1, 7 * batch,
                                           11 * batch + 5, 1000 * batch + 2}) {
                SCOPED_TRACE(testing::Message() << name << " of " << size << " by " << batch);
                const auto values = counting<unsigned>(size);
                std::vector<unsigned> expected(size);
                for (std::size_t first = 0; first < size; first += batch) {
                    const std::size_t count = std::min(batch, size - first);
                    for (std::size_t i = 0; i < count; ++i) expected[first + i] = values[first + count - 1 - i] + 1;
                }
                ASSERT_EQ(run(form, reverse_and_add{}, values, options), expected);
            }
            const auto bytes = counting<unsigned char>(20 * options.batch_bytes + 13);
            std::vector<unsigned char> halves(bytes);
            for (auto& each : halves) each = static_cast<unsigned char>(each / 2);
            ASSERT_EQ(run(form, halve_bytes{}, bytes, options), halves) << name << " of bytes";
        }
    }

    // From bytes to doubles.
    template <typename Form>
    void expect_widened(Form form, const char* name) {
        const pipelined_options options{128, 512, 3};
        for (const std::size_t size : {1, 511, 512, 513, 9000}) {
            SCOPED_TRACE(testing::Message() << name << " of " << size);
            const auto values = counting<unsigned char>(size);
            const auto in = submit_to(home, upload(values));
            auto out = submit_to(home, full<double>(in.shape(), -1));
            pipelined_transform(home, form, widen{}, in, out, options);
            std::vector<double> expected(size);
            for (std::size_t first = 0; first < size; first += 512) {
                const std::size_t count = std::min<std::size_t>(512, size - first);
                for (std::size_t i = 0; i < count; ++i) expected[first + i] = values[first + count - 1 - i] / 2.0;
            }
            ASSERT_EQ(contents(std::move(out), home), expected);
        }
    }

    bool is_before_hopper() const { return on.kind() == device_kind::cuda && on.properties().compute_capability < 90; }

    round_robin pool{on, 2};
    stream home = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, pipelined_transforms, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(pipelined_transforms, are_right_in_every_form_and_at_every_size) {
    expect_right(pipelined::plain_loads{}, "plain loads");
    expect_right(pipelined::one_stage{}, "one stage");
    expect_right(pipelined::two_stages{}, "two stages");
    expect_right(pipelined::n_stages<4>{}, "four stages");
    expect_right(pipelined::roles<2, 32>{}, "roles, a warp copies");
    expect_right(pipelined::roles<3, 5>{}, "roles, five threads copy");
    expect_right(pipelined::thread_scope<1>{}, "thread scope, one stage");
    expect_right(pipelined::thread_scope<3>{}, "thread scope");
    expect_right(pipelined::primitives<1>{}, "primitives, one stage");
    expect_right(pipelined::primitives<4>{}, "primitives");
    expect_right(pipelined::arrivals<3>{}, "arrivals");
    expect_right(pipelined::warp_scope<1>{}, "warp scope, one stage");
    expect_right(pipelined::warp_scope<3>{}, "warp scope");
}

TEST_P(pipelined_transforms, are_right_with_any_subset_of_the_block) {
    expect_right(pipelined::roles_where<2, pipelined::even_ranks>{}, "even ranks copy");
    expect_right(pipelined::roles_where<3, pipelined::odd_ranks>{}, "odd ranks copy");
    expect_right(pipelined::roles_where<1, pipelined::first_ranks<7>>{}, "seven threads copy");
    expect_right(pipelined::part<32, pipelined::plain_loads, 32>{}, "plain loads in a warp");
    expect_right(pipelined::part<64, pipelined::n_stages<2>>{}, "two stages in two warps");
    expect_right(pipelined::part<64, pipelined::roles<2, 9>>{}, "roles in two warps");
    expect_right(pipelined::part<32, pipelined::thread_scope<3>, 32>{}, "thread scope in a warp");
    expect_right(pipelined::part<64, pipelined::warp_scope<2>>{}, "warp scope in two warps");
}

TEST_P(pipelined_transforms, are_right_with_bulk_copies) {
    if (is_before_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
    expect_right(pipelined::bulk<1>{}, "bulk, one stage");
    expect_right(pipelined::bulk<4>{}, "bulk");
}

TEST_P(pipelined_transforms, are_operations) {
    auto all = upload(std::vector<unsigned>{1, 2, 3}).and_then([](auto x) {
        return pipelined_transform(pipelined::two_stages{}, reverse_and_add{}, std::move(x));
    });
    EXPECT_EQ(sync(std::move(all).and_then(download), pool), (std::vector<unsigned>{4, 3, 2}));
}

TEST_P(pipelined_transforms, have_elements_of_another_type) {
    expect_widened(pipelined::plain_loads{}, "plain loads");
    expect_widened(pipelined::two_stages{}, "two stages");
    expect_widened(pipelined::roles_where<2, pipelined::odd_ranks>{}, "odd ranks copy");
    expect_widened(pipelined::thread_scope<2>{}, "thread scope");
    expect_widened(pipelined::warp_scope<2>{}, "warp scope");
    expect_widened(pipelined::part<64, pipelined::primitives<2>>{}, "primitives in two warps");
    auto all = upload(std::vector<unsigned char>{1, 2, 4}).and_then([](auto x) {
        return pipelined_transform<double>(pipelined::two_stages{}, widen{}, std::move(x));
    });
    EXPECT_EQ(sync(std::move(all).and_then(download), pool), (std::vector<double>{2, 1, 0.5}));
}

TEST_P(pipelined_transforms, of_nothing_are_nothing) {
    EXPECT_TRUE(run(pipelined::two_stages{}, reverse_and_add{}, std::vector<unsigned>{}, {}).empty());
}

TEST_P(pipelined_transforms, with_options_out_of_range_are_refused_before_anything_is_submitted) {
    const auto in = sync(zeros<unsigned>({100}), pool);
    auto out = sync(zeros<unsigned>({100}), pool), other = sync(zeros<unsigned>({99}), pool);
    const ticket before = home.issued();
    const auto expect = [&](auto form, const pipelined_options& options) {
        expect_refused(errc::invalid_argument, {"pipelined_transform on " + GetParam().device},
                       [&] { pipelined_transform(home, form, reverse_and_add{}, in, out, options); });
    };
    expect(pipelined::two_stages{}, {.threads = 0});
    expect(pipelined::two_stages{}, {.threads = 100});
    expect(pipelined::two_stages{}, {.threads = 2048});
    expect(pipelined::two_stages{}, {.batch_bytes = 0});
    expect(pipelined::two_stages{}, {.batch_bytes = 100});
    expect(pipelined::roles<2, 64>{}, {.threads = 64});
    expect(pipelined::roles_where<2, pipelined::first_ranks<64>>{}, {.threads = 64});
    expect(pipelined::part<128, pipelined::two_stages>{}, {.threads = 64});
    expect_refused(errc::shape_mismatch, {"[100] into [99]"},
                   [&] { pipelined_transform(home, pipelined::two_stages{}, reverse_and_add{}, in, other); });
    EXPECT_EQ(home.issued(), before);
}

}  // namespace sluice::conformance::pipelined_transform_tests
