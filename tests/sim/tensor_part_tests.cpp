// SPDX-License-Identifier: Apache-2.0
// The simulator and parts of tensors: streams on different parts are no race, and wherever an order is missing, it says
// so.
#include <gmock/gmock.h>

#include "sim/pipelines.hpp"
#include "sim/saboteurs.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::tensor_part_tests {
namespace {

using numbers = std::vector<float>;
using testing::HasSubstr;

constexpr std::size_t size = 128;
constexpr std::size_t half = size / 2;

numbers halves(float low, float high) {
    numbers all(half, low);
    all.resize(size, high);
    return all;
}

// Commands that name a storage, and do nothing.
void use(stream on, storage& memory, access_mode mode) {
    const std::array accesses{memory_access{&memory, mode}};
    on.host_call({"use", accesses}, {[] {}});
}

template <typename Pipeline>
exploration explored(Pipeline pipeline) {
    return explore(pipeline, {.schedules = 500});
}

template <typename Pipeline>
void expect_found(Pipeline pipeline, fault what) {
    const exploration made = explored(pipeline);
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, what) << *made.found;
}

TEST(tensor_parts, two_streams_on_the_halves_of_a_tensor_are_clean) {
    const exploration made = explored([](scheduling_policy& pool) {
        stream a = pool.next(), b = pool.next(), c = pool.next();
        tensor<float> x(a, {size});
        set(a, x, 1);
        auto [low, high] = split<2>(std::move(x));
        set(a, low, 2);
        set(b, high, 3);
        tensor<float> whole = join(std::move(low), std::move(high));
        tensor<float> sum(c, {size});
        set(c, sum, 1);
        add(c, whole, sum);
        set(b, whole, 0);
        return contents(a, std::move(sum));
    });
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(tensor_parts, slices_that_outlive_their_readers_are_clean) {
    const exploration made = explored([](scheduling_policy& pool) {
        stream a = pool.next(), b = pool.next();
        tensor<float> sum(b, {half});
        set(b, sum, 1);
        {
            tensor<float> x(a, {size});
            set(a, x, 2);
            const shared_tensor<float> whole(std::move(x));
            add(b, *slice(whole, half, half), sum);
        }
        tensor<float> next(a, {size});  // perhaps the same memory
        set(a, next, 5);
        return contents(a, std::move(sum));
    });
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

// The two storages are of the same bytes, and know nothing of each other.
TEST(tensor_parts, parts_that_overlap_are_a_race) {
    expect_found(
        [](scheduling_policy& pool) {
            stream a = pool.next(), b = pool.next();
            tensor<float> x(a, {size});
            set(a, x, 1);
            const storage_ref one = storage::part_of(*x.memory(), 0, half * sizeof(float));
            const storage_ref other = storage::part_of(*x.memory(), 256 - 64, half * sizeof(float));
            use(a, *one, access_mode::write);
            use(b, *other, access_mode::read);
        },
        fault::race);
}

TEST(tensor_parts, the_whole_is_not_used_beside_a_part) {
    expect_found(
        [](scheduling_policy& pool) {
            stream a = pool.next(), b = pool.next();
            tensor<float> x(a, {size});
            set(a, x, 1);
            const storage_ref part = storage::part_of(*x.memory(), 0, half * sizeof(float));
            use(b, *part, access_mode::write);
            use(a, *x.memory(), access_mode::read);
        },
        fault::race);
}

TEST(tensor_parts, a_part_that_nothing_has_written_is_not_read) {
    expect_found(
        [](scheduling_policy& pool) {
            stream a = pool.next();
            auto [low, high] = split<2>(tensor<float>(a, {size}));
            set(a, low, 1);
            use(a, *high.memory(), access_mode::read);
        },
        fault::uninitialized_read);
    expect_found(
        [](scheduling_policy& pool) {
            stream a = pool.next();
            auto [low, high] = split<2>(tensor<float>(a, {size}));
            set(a, high, 1);
            const tensor<float> whole = join(std::move(low), std::move(high));
            use(a, *whole.memory(), access_mode::read);
        },
        fault::uninitialized_read);
    const exploration both = explored([](scheduling_policy& pool) {
        stream a = pool.next();
        auto [low, high] = split<2>(tensor<float>(a, {size}));
        set(a, high, 1);
        set(a, low, 2);
        return contents(a, join(std::move(low), std::move(high)));
    });
    EXPECT_TRUE(both.is_clean()) << *both.found;
}

TEST(tensor_parts, the_rest_of_a_split_tensor_and_empty_parts_are_clean) {
    const exploration made = explored([](scheduling_policy& pool) {
        stream a = pool.next(), b = pool.next();
        std::vector<tensor<float>> parts = split(tensor<float>(a, {200}), {half, 0, 136});
        const tensor<float> none = std::move(parts[1]);
        set(b, parts[2], 7);
        parts.pop_back();
        parts.pop_back();
        set(a, parts[0], 1);
        tensor<float> rest = join(std::move(parts));  // without those that were dropped
        use(b, *none.memory(), access_mode::write);
        use(a, *rest.memory(), access_mode::write);
        return contents(a, std::move(rest));
    });
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(tensor_parts, a_command_stays_in_the_part_that_it_names) {
    const exploration made = explored([](scheduling_policy& pool) {
        stream a = pool.next();
        auto [low, high] = split<2>(tensor<float>(a, {size}));
        const std::array accesses{memory_access{low.memory(), access_mode::write}};
        a.fill({"too far", accesses}, {low.device_data(), 0, size * sizeof(float)});
    });
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::undeclared_access);
    EXPECT_THAT(made.found->message, HasSubstr("memory that it does not name"));
}

TEST(tensor_parts, a_pipeline_gives_the_same_eagerly_and_compiled) {
    const auto work = [](tensor<float> x) {
        auto [low, high] = split<2>(std::move(x));
        return zip(upload(numbers(half, 2)).and_then([to = std::move(low)](auto more) mutable {
                   return launch(add_all{}, each_of(to), std::move(more), std::move(to));
               }),
                   upload(numbers(half, 3)).and_then([to = std::move(high)](auto more) mutable {
                       return launch(add_all{}, each_of(to), std::move(more), std::move(to));
                   }))
            .transform([](auto one, auto other) { return join(std::move(one), std::move(other)); })
            .and_then(download);
    };
    for (const bool compiled : {false, true}) {
        const exploration made = explored([&](scheduling_policy& pool) {
            const numbers result = compiled
                                       ? sync(compile(pool, work, host_input<float>({size}))(numbers(size, 1)), pool)
                                       : sync(upload(numbers(size, 1)).and_then(work), pool);
            if (result != halves(3, 4)) throw std::runtime_error("wrong numbers");
            return result;
        });
        EXPECT_TRUE(made.is_clean()) << *made.found;
    }
}

}  // namespace
}  // namespace sluice::sim::tensor_part_tests
