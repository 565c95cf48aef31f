// SPDX-License-Identifier: Apache-2.0
// The code in docs/loops.md. Runs on the default device: a GPU where there is one.
#include <gtest/gtest.h>

#include "sluice/sluice.hpp"

namespace sluice::docs::loops_tests {
namespace {

// In place: an index reads and writes its own element only.
struct decay {
    SLUICE_KERNEL void operator()(index_1d at, float factor, disjoint_view<float> weights) const {
        if (float* element = weights.at(at)) *element *= factor;
    }
};

// Each element of `next` needs two elements of `x`, so it is written to other memory.
struct average {
    SLUICE_KERNEL void operator()(index_1d at, view<const float> x, disjoint_view<float> next) const {
        const std::size_t i = at.value();
        if (float* element = next.at(at)) *element = (x[i] + x[i + 1 < x.size() ? i + 1 : 0]) / 2;
    }
};

auto averaged(tensor<float> x) {
    const shared_tensor<float> now(std::move(x));  // every index reads all of it
    return uninitialized<float>(now->shape()).and_then([=](tensor<float> next) {
        auto range = each_of(next);
        return launch(average{}, range, now, std::move(next));
    });
}

struct count_down {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<int> left, loop_condition again) const {
        if (int* rounds = left.at(at)) again.set(--*rounds > 0);
    }
};

class loops : public testing::Test {
protected:
    runtime machine;
    round_robin pool{machine.default_device(), 2};
    const std::vector<float> start{8, 0, 0, 0};
    const std::vector<float> after_two{2, 0, 2, 4};
};

}  // namespace

TEST_F(loops, in_place) {
    tensor<float> weights = sync(upload(start), pool);
    for (int round = 0; round < 3; ++round) {
        auto range = each_of(weights);
        weights = sync(launch(decay{}, range, 0.5f, std::move(weights)), pool);
    }
    EXPECT_EQ(sync(download(std::move(weights)), pool), (std::vector<float>{1, 0, 0, 0}));
}

TEST_F(loops, a_chain_of_rounds) {
    any_operation<tensor<float>> rounds = upload(start);
    for (int round = 0; round < 2; ++round) rounds = std::move(rounds).and_then(averaged);
    const std::vector<float> x = sync(std::move(rounds).and_then(download), pool);

    EXPECT_EQ(x, after_two);
}

TEST_F(loops, a_compiled_round) {
    const auto round = compile(pool, averaged, device_input<float>({4}));
    tensor<float> x = sync(upload(start), pool);
    for (int i = 0; i < 2; ++i) x = sync(round(std::move(x)), pool);

    EXPECT_EQ(sync(download(std::move(x)), pool), after_two);
}

TEST_F(loops, on_the_device) {
    const auto solve = compile(
        pool,
        [](tensor<float> x, tensor<int> rounds) {
            auto body = [](loop_flag again, tensor<float> now, tensor<int> left) {
                auto range = each_of(left);
                return zip(averaged(std::move(now)), launch(count_down{}, range, std::move(left), again));
            };
            return do_while(body, std::move(x), std::move(rounds)).and_then([](tensor<float> y, tensor<int>) {
                return download(std::move(y));
            });
        },
        host_input<float>({4}), host_input<int>({1}));
    const std::vector<float> x = sync(solve(start, std::vector<int>{2}), pool);

    EXPECT_EQ(x, after_two);
}

}  // namespace sluice::docs::loops_tests
