// SPDX-License-Identifier: Apache-2.0
// The simulator and regions of tensors: it checks exactly the bytes of the rows, and says where an order is missing.
#include <gmock/gmock.h>

#include "sim/saboteurs.hpp"
#include "sluice/runtime/copy_region.hpp"
#include "sluice/runtime/parts.hpp"
#include "sluice/sim/explore.hpp"

namespace sluice::sim::region_tests {
namespace {

using numbers = std::vector<float>;
using testing::HasSubstr;

const shape matrix{16, 16};
const region left{.at = {2, 0}, .shape = {8, 4}}, right{.at = {2, 8}, .shape = {8, 4}};

// Two streams write two regions of one tensor, and a third one reads them.
numbers two_regions(scheduling_policy& pool) {
    stream a = pool.next(), b = pool.next(), c = pool.next();
    tensor<float> x = sync_on(zeros<float>(matrix), a), y = sync_on(full<float>(matrix, 3), b);
    const auto four = std::make_shared<const numbers>(32, 4.f);
    upload_to(a, x, left, *four, four);
    copy_to(b, x, right, y, left);
    auto [rest, both] = sync_on(copy_region(std::move(x), {.shape = {10, 12}}), c);
    return contents(c, std::move(both));
}

}  // namespace

TEST(regions, two_streams_on_one_tensor_are_clean) {
    const exploration made = explore(two_regions, {.schedules = 500});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(regions, a_lost_wait_between_two_regions_of_one_tensor_is_a_race) {
    for (const std::size_t of_stream : {1u, 2u}) {
        drops_waits saboteur(of_stream);
        const exploration made = explore(two_regions, {.schedules = 500, .planted = &saboteur});
        ASSERT_FALSE(made.is_clean());
        EXPECT_EQ(made.found->what, fault::race) << *made.found;
    }
}

TEST(regions, rows_stay_in_the_memory_that_a_command_names) {
    const auto copied = [](std::size_t rows, std::size_t pitch) {
        return explore(
            [=](scheduling_policy& pool) {
                stream a = pool.next();
                tensor<float> from(a, matrix);
                set(a, from, 1);
                auto [low, high] = split<2>(tensor<float>(a, matrix));
                const std::array accesses{memory_access{from.memory(), access_mode::read},
                                          memory_access{low.memory(), access_mode::write}};
                a.copy({"rows", accesses}, {low.device_data(),
                                            from.device_data(),
                                            16,
                                            copy_direction::device_to_device,
                                            {},
                                            nullptr,
                                            {rows, 16, pitch}});
            },
            {.schedules = 20});
    };
    EXPECT_TRUE(copied(8, 64).is_clean());  // the half has 8 rows of 64 bytes
    const exploration made = copied(9, 64);
    ASSERT_FALSE(made.is_clean());
    EXPECT_EQ(made.found->what, fault::undeclared_access);
    EXPECT_THAT(made.found->message, HasSubstr("memory that it does not name"));
}

// Between the rows there may be memory that the command does not name.
TEST(regions, the_bytes_between_two_rows_are_not_touched) {
    const exploration made = explore(
        [](scheduling_policy& pool) {
            stream a = pool.next();
            auto parts = split(tensor<float>(a, {192}), 3);  // 256 bytes each
            for (const tensor<float>& each : parts) set(a, each, 1);
            tensor<float> from(a, {8});
            set(a, from, 2);
            const std::array accesses{memory_access{from.memory(), access_mode::read},
                                      memory_access{parts[0].memory(), access_mode::write},
                                      memory_access{parts[2].memory(), access_mode::write}};
            a.copy({"rows", accesses}, {parts[0].device_data(),
                                        from.device_data(),
                                        16,
                                        copy_direction::device_to_device,
                                        {},
                                        nullptr,
                                        {2, 16, 512}});
            return contents(a, join(std::move(parts)));
        },
        {.schedules = 20});
    EXPECT_TRUE(made.is_clean()) << *made.found;
}

TEST(regions, a_pipeline_gives_the_same_eagerly_and_compiled) {
    const auto work = [](tensor<float> x) {
        return upload_to(std::move(x), left, numbers(32, 5))
            .and_then([](auto y) { return copy_within(std::move(y), right, left); })
            .and_then(download_region({.at = {1, 6}, .shape = {9, 5}}))
            .transform([](auto, auto some) { return some; });
    };
    for (const bool compiled : {false, true}) {
        const exploration made = explore(
            [&](scheduling_policy& pool) {
                const numbers ones(matrix.size(), 1);
                const numbers result = compiled ? sync(compile(pool, work, host_input<float>(matrix))(ones), pool)
                                                : sync(upload(ones, matrix).and_then(work), pool);
                for (std::size_t i = 0; i < result.size(); ++i) {
                    const bool is_inside = i / 5 >= 1 && i % 5 >= 2;
                    if (result[i] != (is_inside ? 5 : 1)) throw std::runtime_error("wrong numbers");
                }
                return result;
            },
            {.schedules = 200});
        EXPECT_TRUE(made.is_clean()) << *made.found;
    }
}

}  // namespace sluice::sim::region_tests
