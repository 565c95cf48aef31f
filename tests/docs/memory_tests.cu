// SPDX-License-Identifier: Apache-2.0
// The code in docs/memory.md.
#include <gtest/gtest.h>

#include "sluice/sluice.hpp"

namespace sluice::docs::memory_tests {
namespace {

class memory : public testing::Test {
protected:
    runtime machine;
    device& on = machine.default_device();
    single_stream pool{on};
};

}  // namespace

TEST_F(memory, uploads_come_from_vectors_spans_with_an_owner_and_host_buffers) {
    auto a = upload(std::vector<float>{1, 2, 3, 4}, {2, 2});  // the operation owns the vector

    auto mapped = std::make_shared<std::vector<float>>(4, 2.f);
    auto b = upload(std::span<const float>(*mapped), mapped, {2, 2});  // kept until the device has read it

    host_buffer<float> pinned(pool.next(), 4);
    for (float& element : pinned.write()) element = 3;
    auto c = upload(std::move(pinned), {2, 2});  // copied from where it is

    auto all = zip(std::move(a), std::move(b), std::move(c)).and_then([](auto x, auto y, auto z) {
        return zip(download(std::move(x)), download(std::move(y)), download(std::move(z)));
    });
    auto [x, y, z] = sync(std::move(all), pool);
    EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(y, std::vector<float>(4, 2.f));
    EXPECT_EQ(z, std::vector<float>(4, 3.f));
}

TEST_F(memory, parts_of_a_tensor_are_worked_on_and_joined) {
    auto scaled =
        upload(std::vector<float>(1024, 1))
            .transform([](auto x) { return split<2>(std::move(x)); })
            .and_then([](auto low, auto high) { return zip(scale(std::move(low), 2), scale(std::move(high), 3)); })
            .transform([](auto low, auto high) { return join(std::move(low), std::move(high)); });
    std::vector<float> expected(512, 2);
    expected.resize(1024, 3);
    EXPECT_EQ(sync(std::move(scaled).and_then(download), pool), expected);
}

TEST_F(memory, regions_are_copied) {
    const auto image = std::make_shared<std::vector<float>>(480 * 640, 7.f);
    const region face{.at = {2, 8}, .shape = {4, 16}};  // rows 2 to 5, columns 8 to 23

    auto work =
        zeros<float>({64, 64})
            .and_then([=](auto x) {  // from the middle of a larger matrix in host memory
                return upload_to(std::move(x), face, *image, image, {.whole = {480, 640}, .at = {100, 200}});
            })
            .and_then([=](auto x) { return copy_within(std::move(x), {.at = {40, 0}, .shape = {4, 16}}, face); })
            .and_then(copy_region({.at = {40, 0}, .shape = {4, 64}}));  // x, and a new tensor of 4 rows
    auto [x, rows] = sync(std::move(work), pool);
    auto [again, seven] = sync(download_region(std::move(x), face), pool);

    EXPECT_EQ(seven, std::vector<float>(64, 7));
    const std::vector<float> made = sync(download(std::move(rows)), pool);
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i], i % 64 < 16 ? 7 : 0) << i;
}

TEST_F(memory, downloads_fill_new_vectors_host_buffers_and_spans) {
    std::vector<float> fresh = sync(upload(std::vector<float>{1, 2}).and_then(download), pool);

    host_buffer<float> room(pool.next(), 2);
    host_buffer<float> filled = sync(upload(std::vector<float>{3, 4}).and_then(download_to(std::move(room))), pool);

    auto owner = std::make_shared<std::vector<float>>(2);
    const std::span<float> part(*owner);
    sync(upload(std::vector<float>{5, 6}).and_then(download_to(part, owner)), pool);

    EXPECT_EQ(fresh, (std::vector<float>{1, 2}));
    EXPECT_EQ(filled.read()[1], 4);
    EXPECT_EQ(*owner, (std::vector<float>{5, 6}));
}

TEST_F(memory, a_second_allocation_reuses_the_block) {
    sync(zeros<float>({1000}).transform([](tensor<float>) {}), pool);
    const memory_pool::statistics before = on.device_pool().usage();
    sync(zeros<float>({1000}).transform([](tensor<float>) {}), pool);
    const memory_pool::statistics after = on.device_pool().usage();
    EXPECT_EQ(after.allocations, before.allocations + 1);
    EXPECT_EQ(after.source_calls, before.source_calls);  // no call of the driver
    on.trim();                                           // returns free blocks to the system, after their last uses
    EXPECT_EQ(on.device_pool().usage().cached_bytes, 0u);
}

}  // namespace sluice::docs::memory_tests
