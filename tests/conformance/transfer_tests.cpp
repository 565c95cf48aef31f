// SPDX-License-Identifier: Apache-2.0
// Data uploaded to a device and downloaded is unchanged.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>

#include "conformance/backend.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/copy_region.hpp"

namespace sluice::conformance::transfer_tests {
namespace {

CONFORMANCE_SUITE(transfers);

// Sizes at which a GPU's uploads change their method: one block, several chunks, reused chunks. See transfer.cpp,
// staging_pool.cpp.
constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::array staging_borders_bytes{mebibyte, 4 * mebibyte, 8 * mebibyte, 32 * mebibyte};

struct record {
    double first = 0;
    std::int16_t second = 0;
    char third = 0;
    friend bool operator==(const record&, const record&) = default;
};

template <typename T>
void expect_round_trip(const std::vector<T>& values, scheduling_policy& pool) {
    EXPECT_EQ(sync(upload(values).and_then(download), pool), values) << values.size() << " elements of " << sizeof(T);
}

template <typename T>
void expect_round_trips(scheduling_policy& pool) {
    for (const std::size_t size : {0, 1, 2, 63, 1000, 4097}) expect_round_trip(counting<T>(size), pool);
}

TEST_P(transfers, an_upload_comes_back_unchanged) {
    round_robin pool(on, 3);
    expect_round_trips<float>(pool);
    expect_round_trips<double>(pool);
    expect_round_trips<std::int8_t>(pool);
    expect_round_trips<std::uint16_t>(pool);
    expect_round_trips<std::int64_t>(pool);
    expect_round_trip(std::vector<record>{{1.5, 2, 'c'}, {-0.0, -1, 0}, {1e300, 7, 'z'}}, pool);
}

TEST_P(transfers, uploads_around_the_borders_of_staging_come_back_unchanged) {
    round_robin pool(on, 2);
    const auto longest = counting<std::uint8_t>(staging_borders_bytes.back() + 12345);
    for (const std::size_t border : staging_borders_bytes) {
        for (const std::size_t bytes : {border - 1, border, border + 1, border + 12345}) {
            const std::vector values(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(bytes));
            EXPECT_TRUE(sync(upload(values).and_then(download), pool) == values) << bytes;
        }
    }
}

TEST_P(transfers, large_uploads_of_many_threads_come_back_unchanged) {
    round_robin pool(on, 4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
            std::vector<std::uint32_t> values((3 + i) * mebibyte / 4 + i);
            std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(i << 24));
            for (int round = 0; round < 3; ++round)
                EXPECT_TRUE(sync(upload(values).and_then(download), pool) == values) << i;
        });
    }
    for (std::thread& each : threads) each.join();
}

TEST_P(transfers, large_uploads_may_be_dropped_in_flight) {
    round_robin pool(on, 2);
    const auto values = counting<int>(2 * mebibyte);
    for (int round = 0; round < 8; ++round) static_cast<void>(spawn(upload(values), pool));
    EXPECT_TRUE(sync(upload(values).and_then(download), pool) == values);
    on.synchronize();
    on.trim();
    EXPECT_EQ(bytes_in_use(), 0u);
}

TEST_P(transfers, the_source_of_a_large_upload_may_be_freed_after_the_submission) {
    NEEDS_A_GATE();
    single_stream pool(on);
    stream home = pool.next();
    for (const std::size_t size : {mebibyte, 3 * mebibyte}) {
        const auto expected = counting<int>(size);
        auto values = std::make_unique<std::vector<int>>(expected);
        gate held(home);
        auto there = submit_to(home, upload(std::span<const int>(*values), nullptr, {size}));
        std::fill(values->begin(), values->end(), -1);
        values.reset();
        held.open();
        EXPECT_TRUE(contents(std::move(there), home) == expected) << size;
    }
}

TEST_P(transfers, a_tensor_has_the_requested_shape) {
    single_stream pool(on);
    const auto made = sync(upload(counting<int>(24), {2, 3, 4}), pool);
    EXPECT_EQ(made.shape(), (shape{2, 3, 4}));
    EXPECT_EQ(made.size(), 24u);
    EXPECT_EQ(made.size_bytes(), 24 * sizeof(int));
    EXPECT_EQ(sync(zeros<float>({5, 0}), pool).shape(), (shape{5, 0}));
    EXPECT_EQ(sync(uninitialized<float>({7}), pool).shape(), (shape{7}));
    EXPECT_EQ(sync(full<double>({}, 2), pool).shape(), shape{});
}

TEST_P(transfers, a_host_buffer_is_uploaded_and_its_memory_reused) {
    single_stream pool(on);
    stream home = pool.next();
    const std::size_t in_use = bytes_in_use();
    for (int round = 0; round < 3; ++round) {
        host_buffer<int> from(home, 1000);
        const auto room = from.write();
        std::iota(room.begin(), room.end(), round);
        const std::vector<int> values(room.begin(), room.end());
        EXPECT_EQ(sync(upload(std::move(from), {10, 100}).and_then(download), pool), values);
    }
    EXPECT_EQ(bytes_in_use(), in_use);
}

TEST_P(transfers, a_host_buffer_is_writable_again_only_after_its_last_use) {
    NEEDS_A_GATE();
    single_stream pool(on);
    stream home = pool.next();
    host_buffer<int> from(home, 4);
    for (int& each : from.write()) each = 1;
    auto to = tensor<int>(home, {4});
    gate held(home);
    const std::array accesses{memory_access{from.memory(), access_mode::read},
                              memory_access{to.memory(), access_mode::write}};
    home.copy({"copy", accesses}, {to.device_data(), from.device_data(), 16, copy_direction::host_to_device, {}});
    held.open();
    for (int& each : from.write()) each = 2;  // blocks until the copy is done
    EXPECT_EQ(contents(std::move(to), home), std::vector<int>(4, 1));
}

TEST_P(transfers, the_owner_of_uploaded_memory_is_kept_until_the_device_has_read_it) {
    single_stream pool(on);
    auto kept = std::make_shared<std::vector<int>>(counting<int>(5000));
    const std::vector<int> expected = *kept;
    const std::weak_ptr<std::vector<int>> watch = kept;
    const std::span<const int> values(*kept);
    auto operation = upload(values, std::move(kept), {5000});
    ASSERT_FALSE(watch.expired());
    auto there = sync(std::move(operation), pool);
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(contents(std::move(there), pool.next()), expected);
}

TEST_P(transfers, zeros_are_zero_even_in_memory_that_was_used_before) {
    round_robin pool(on, 2);
    for (const std::size_t size : {1u, 100u, 70'000u}) {
        sync(full<unsigned>({size}, 0xabcdef), pool);
        EXPECT_EQ(sync(zeros<unsigned>({size}).and_then(download), pool), std::vector<unsigned>(size, 0));
    }
}

TEST_P(transfers, full_fills_elements_of_every_size) {
    round_robin pool(on, 2);
    EXPECT_EQ(sync(full<std::uint8_t>({301}, 200).and_then(download), pool), std::vector<std::uint8_t>(301, 200));
    EXPECT_EQ(sync(full<std::int16_t>({301}, -7).and_then(download), pool), std::vector<std::int16_t>(301, -7));
    EXPECT_EQ(sync(full<float>({7, 43}, 1.25f).and_then(download), pool), std::vector<float>(301, 1.25f));
    EXPECT_EQ(sync(full<double>({301}, -1e300).and_then(download), pool), std::vector<double>(301, -1e300));
    EXPECT_TRUE(sync(full<float>({0}, 1).and_then(download), pool).empty());
}

TEST_P(transfers, a_copy_and_its_original_have_separate_memory) {
    round_robin pool(on, 2);
    const std::vector<int> values = counting<int>(3000);
    auto [original, twin] = sync(upload(values, {3, 1000}).and_then(copy), pool);
    EXPECT_EQ(twin.shape(), original.shape());
    EXPECT_NE(twin.device_data(), original.device_data());
    original = tensor<int>();
    EXPECT_EQ(sync(download(std::move(twin)), pool), values);
}

TEST_P(transfers, a_copy_on_the_device_completes_while_another_stream_is_held) {
    NEEDS_A_GATE();
    if (!GetParam().runs_concurrently) GTEST_SKIP() << "a held stream holds the others";
    round_robin pool(on, 2);
    const stream held = pool.next(), home = pool.next();
    const std::vector<int> values = counting<int>(100'000);
    const auto source = sync(upload(values), pool);
    auto first = sync(zeros<int>({values.size()}), pool), second = sync(zeros<int>({values.size()}), pool);
    copy_to(home, first, source);  // loads what a copy needs
    on.synchronize();
    gate closed(held);
    const ticket gated = held.issued();
    copy_to(home, second, first);
    const ticket copied = home.issued();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!has_passed(home, copied) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(has_passed(home, copied));
    EXPECT_FALSE(has_passed(held, gated));
    closed.open();
    EXPECT_EQ(contents(std::move(second), home), values);
}

TEST_P(transfers, copies_and_fills_inside_the_device_are_submitted_without_a_wait) {
    NEEDS_A_GATE();
    single_stream pool(on);
    const stream home = pool.next();
    const std::vector<int> values = counting<int>(100'000);
    auto source = sync(upload(values), pool);
    {  // fills the pool, and loads what copies and fills need
        auto [original, twin] = sync_on(copy(std::move(source)), home);
        source = std::move(original);
        sync_on(zeros<int>({values.size()}), home);
    }
    on.synchronize();
    gate held(home);
    const ticket gated = home.issued();
    auto cleared = submit_to(home, zeros<int>({values.size()}));
    auto [original, twin] = submit_to(home, copy(std::move(source)));
    copy_to(home, cleared, twin);
    EXPECT_GT(home.issued(), gated + 2);
    EXPECT_FALSE(has_passed(home, gated));
    held.open();
    EXPECT_EQ(contents(std::move(cleared), home), values);
}

TEST_P(transfers, a_shared_tensor_is_copied_and_downloaded_and_stays_valid) {
    round_robin pool(on, 3);
    const std::vector<int> values = counting<int>(100);
    const auto source = sync(share(upload(values)), pool);
    EXPECT_EQ(sync(download(source), pool), values);
    EXPECT_EQ(sync(copy(source).and_then(download), pool), values);
    EXPECT_EQ(sync(download(source), pool), values);
}

TEST_P(transfers, a_download_may_stay_in_pinned_memory) {
    round_robin pool(on, 2);
    const std::vector<int> values{3, 1, 4, 1, 5};
    host_buffer<int> got = sync(upload(values).and_then(download_buffer), pool);
    EXPECT_TRUE(std::ranges::equal(got.read(), values));
    EXPECT_EQ(sync(upload(std::move(got), {5}).and_then(download), pool), values);
    EXPECT_EQ(sync(zeros<int>({0}).and_then(download_buffer), pool).size(), 0u);
}

TEST_P(transfers, several_tensors_come_back_as_one_vector) {
    round_robin pool(on, 2);
    std::vector<tensor<int>> all;
    all.push_back(sync(upload(std::vector{1, 2}), pool));
    all.push_back(sync(zeros<int>({0}), pool));
    all.push_back(sync(upload(std::vector{3}), pool));
    EXPECT_EQ(sync(download(std::move(all)), pool), (std::vector{1, 2, 3}));
    EXPECT_TRUE(sync(download(std::vector<tensor<int>>()), pool).empty());
}

TEST_P(transfers, empty_tensors_work_in_every_operation) {
    single_stream pool(on);
    auto [original, twin] = sync(upload(std::vector<float>{}, {0, 5}).and_then(copy), pool);
    EXPECT_TRUE(sync(relu(std::move(original)).and_then(download), pool).empty());
    EXPECT_TRUE(sync(download(std::move(twin)), pool).empty());
    EXPECT_TRUE(sync(download(tensor<float>(pool.next(), {0})), pool).empty());
    EXPECT_EQ(sync(uninitialized<float>({0}), pool).size(), 0u);
}

TEST_P(transfers, a_reshaped_tensor_keeps_its_elements) {
    single_stream pool(on);
    const std::vector<int> values = counting<int>(12);
    auto operation = upload(values).transform([](auto x) { return std::move(x).reshape({3, 4}); });
    auto matrix = sync(std::move(operation), pool);
    EXPECT_EQ(matrix.rows(), 3u);
    EXPECT_EQ(contents(std::move(matrix), pool.next()), values);
}

TEST_P(transfers, memory_without_an_owner_need_only_exist_until_the_submission) {
    NEEDS_A_GATE();
    single_stream pool(on);
    stream home = pool.next();
    auto values = std::make_unique<std::vector<int>>(counting<int>(5000));
    gate held(home);
    auto there = submit_to(home, upload(std::span<const int>(*values), nullptr, {5000}));
    values.reset();
    held.open();
    EXPECT_EQ(contents(std::move(there), home), counting<int>(5000));
}

}  // namespace
}  // namespace sluice::conformance::transfer_tests
