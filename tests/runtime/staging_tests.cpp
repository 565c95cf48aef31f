// SPDX-License-Identifier: Apache-2.0
// Uploads from pageable memory to a device whose memory is separate from the host's.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>

#include "runtime/recording_backend.hpp"
#include "runtime/separate_memory_backend.hpp"
#include "runtime/staging_pool.hpp"

namespace sluice::staging_tests {
namespace {

using apart::gate;

// As in staging_pool.cpp and transfer.cpp.
constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t chunk_bytes = 4 * mebibyte;
constexpr std::size_t most_chunks = 32;

std::vector<std::uint8_t> numbered(std::size_t bytes, unsigned seed = 0) {
    std::vector<std::uint8_t> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::uint8_t>((i * 2654435761u + seed) >> 13);
    return made;
}

auto upload_part(const std::vector<std::uint8_t>& from) {
    return upload(std::span<const std::uint8_t>(from), nullptr, {from.size()});
}

template <operation Op>
auto submit_to(stream on, Op op) {
    execution_context context(on);
    return std::move(op).submit(context);
}

class staging : public testing::Test {
protected:
    bool comes_back(const std::vector<std::uint8_t>& values, stream home) {
        return sync_on(upload_part(values).and_then(download), home) == values;
    }
    std::size_t held_chunks() const { return machine.on().host_pool().usage().in_use_bytes / chunk_bytes; }

    apart::separate_memory_runtime machine;
    stream_lease a{machine.on()}, b{machine.on()}, c{machine.on()};
};

TEST_F(staging, what_it_keeps_counts_as_the_librarys_own) {
    EXPECT_TRUE(comes_back(numbered(3 * chunk_bytes), *a));
    machine.on().synchronize();
    const memory_pool::statistics kept = machine.on().host_pool().usage();
    EXPECT_GE(kept.own_bytes, chunk_bytes);
    EXPECT_EQ(kept.own_bytes, kept.in_use_bytes);
    machine.on().trim();
    EXPECT_EQ(machine.on().host_pool().usage().own_bytes, 0u);
}

TEST_F(staging, uploads_of_every_size_arrive_unchanged) {
    for (const std::size_t border :
         {mebibyte / 4, mebibyte / 2, mebibyte, 2 * mebibyte, chunk_bytes, 2 * chunk_bytes, 8 * chunk_bytes}) {
        for (const std::size_t bytes : {border - 1, border, border + 1, border + 12'345})
            EXPECT_TRUE(comes_back(numbered(bytes), *a)) << bytes;
    }
    EXPECT_TRUE(comes_back(numbered(20 * chunk_bytes + 1), *b));
}

// Many rows in a part, rows that no part divides, rows longer than a part and longer than a chunk.
TEST_F(staging, rows_of_every_length_arrive_unchanged) {
    struct sizes {
        std::size_t rows, columns;
    };
    for (const auto& [rows, columns] :
         {sizes{3000, 100}, sizes{1000, 1027}, sizes{15, 270'000}, sizes{3, mebibyte}, sizes{3000, 5000},
          sizes{9, 600'001}, sizes{4, chunk_bytes - 1}, sizes{3, 2 * chunk_bytes + 17}, sizes{40, mebibyte}}) {
        const shape image{rows + 2, columns + 9};
        const auto pixels = numbered(image.size());
        const region where{.at = {1, 3}, .shape = {rows, columns}};
        auto x = sync_on(zeros<std::uint8_t>({rows + 1, columns + 5}), *a);
        x = sync_on(upload_to(std::move(x), where, pixels, nullptr, {.whole = image, .at = {2, 4}}), *a);
        const auto made = sync_on(download(std::move(x)), *a);
        bool is_right = true;
        for (std::size_t i = 0; i < made.size(); ++i) {
            const std::size_t row = i / (columns + 5), column = i % (columns + 5);
            const bool is_inside = row >= 1 && column >= 3 && column < columns + 3;
            is_right = is_right && made[i] == (is_inside ? pixels[(row + 1) * (columns + 9) + column + 1] : 0);
        }
        EXPECT_TRUE(is_right) << rows << " x " << columns;
    }
}

TEST_F(staging, a_large_upload_needs_no_more_than_eight_chunks) {
    EXPECT_TRUE(comes_back(numbered(20 * chunk_bytes), *a));
    EXPECT_LE(held_chunks(), 8u);
    EXPECT_GE(held_chunks(), 2u);
}

TEST_F(staging, an_upload_of_up_to_four_mebibytes_uses_one_block_and_returns_it) {
    for (const std::size_t bytes : {mebibyte, 4 * mebibyte}) {
        EXPECT_TRUE(comes_back(numbered(bytes), *a));
        EXPECT_EQ(machine.on().host_pool().usage().in_use_bytes, 0u);
    }
}

TEST_F(staging, any_number_of_uploads_of_up_to_four_mebibytes_do_not_wait_for_the_device) {
    const auto values = numbered(3 * mebibyte);
    gate held(*a);  // blocks the stream until all are submitted
    std::vector<tensor<std::uint8_t>> there;
    for (int i = 0; i < 20; ++i) there.push_back(submit_to(*a, upload_part(values)));
    held.open();
    EXPECT_TRUE(sync_on(download(std::move(there.back())), *a) == values);
}

TEST_F(staging, the_source_is_not_needed_after_the_submission) {
    for (const std::size_t bytes : {mebibyte, 3 * mebibyte, 5 * chunk_bytes + 17}) {
        const auto expected = numbered(bytes);
        auto source = std::make_unique<std::vector<std::uint8_t>>(expected);
        gate held(*a);
        auto there = submit_to(*a, upload_part(*source));
        std::fill(source->begin(), source->end(), std::uint8_t{0xee});
        source.reset();
        held.open();
        EXPECT_TRUE(sync_on(download(std::move(there)), *a) == expected) << bytes;
    }
}

TEST_F(staging, an_uploaded_vector_is_freed_by_the_submission) {
    auto owner = std::make_shared<const std::vector<std::uint8_t>>(numbered(9 * mebibyte));
    const std::weak_ptr watch = owner;
    const std::span<const std::uint8_t> values(*owner);
    gate held(*a);
    const auto there = submit_to(*a, upload(values, std::move(owner), {values.size()}));
    EXPECT_TRUE(watch.expired());
}

TEST_F(staging, uploads_that_are_dropped_immediately_leak_nothing) {
    const auto values = numbered(6 * mebibyte);
    for (int round = 0; round < 10; ++round) {
        single_stream pool(machine.on());
        submit_to(*a, upload_part(values));
        static_cast<void>(spawn(upload_part(values).and_then(download), pool));
    }
    machine.on().synchronize();
    machine.on().trim();
    EXPECT_EQ(machine.on().host_pool().usage().in_use_bytes, 0u);
    EXPECT_EQ(machine.on().device_pool().usage().in_use_bytes, 0u);
    EXPECT_EQ(machine.host->used_bytes, 0u);
}

TEST_F(staging, many_threads_upload_at_the_same_time) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 12; ++i) {
        threads.emplace_back([this, i] {
            const stream_lease own(machine.on());
            stream home = i % 3 == 0 ? *a : *own;  // some on one stream
            for (unsigned round = 0; round < 3; ++round)
                EXPECT_TRUE(comes_back(numbered(2 * mebibyte + i * 3'000'000 + round, i), home)) << i;
        });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_LE(held_chunks(), most_chunks);
}

TEST_F(staging, a_blocked_stream_blocks_no_other) {
    const auto values = numbered(8 * chunk_bytes);
    gate held(*a);
    std::vector<tensor<std::uint8_t>> there;
    // None of these submissions waits: there are chunks for all four.
    for (int i = 0; i < 4; ++i) there.push_back(submit_to(*a, upload_part(values)));
    EXPECT_EQ(held_chunks(), most_chunks);
    // Now there are no chunks left, and the next upload does without them.
    EXPECT_TRUE(comes_back(numbered(3 * chunk_bytes, 7), *b));
    // The stream's own next upload waits for the stream.
    auto next = std::async(std::launch::async, [&] { return submit_to(*a, upload_part(values)); });
    EXPECT_TRUE(comes_back(numbered(3 * mebibyte, 8), *c));
    held.open();
    there.push_back(next.get());
    for (auto& each : there) EXPECT_TRUE(sync_on(download(std::move(each)), *a) == values);
    EXPECT_EQ(held_chunks(), most_chunks);
}

TEST_F(staging, with_little_pinned_memory_there_are_fewer_chunks_and_without_any_a_plain_copy) {
    const auto values = numbered(9 * chunk_bytes + 4321);
    for (const std::size_t chunks : {0u, 1u, 2u, 3u}) {
        machine.on().trim();
        machine.host->limit_bytes = machine.host->used_bytes + chunks * chunk_bytes;
        auto there = sync_on(upload_part(values), *a);
        EXPECT_EQ(held_chunks(), chunks);
        machine.on().trim();
        machine.host->limit_bytes = std::size_t{1} << 40;
        EXPECT_TRUE(sync_on(download(std::move(there)), *a) == values) << chunks;
    }
}

TEST_F(staging, a_plain_copy_of_memory_without_an_owner_is_complete_when_the_submission_returns) {
    machine.host->limit_bytes = 0;
    const auto expected = numbered(3 * chunk_bytes);
    auto source = std::make_unique<std::vector<std::uint8_t>>(expected);
    auto there = submit_to(*a, upload_part(*source));
    source.reset();
    machine.host->limit_bytes = std::size_t{1} << 40;
    EXPECT_TRUE(sync_on(download(std::move(there)), *a) == expected);
}

TEST_F(staging, pinned_memory_with_an_owner_is_copied_directly) {
    machine.interpreter->all_is_pinned = true;
    auto owner = std::make_shared<const std::vector<std::uint8_t>>(numbered(3 * chunk_bytes));
    const auto expected = *owner;
    const std::weak_ptr watch = owner;
    const std::span<const std::uint8_t> values(*owner);
    gate held(*a);
    const ticket before = a->issued();
    auto there = submit_to(*a, upload(values, std::move(owner), {values.size()}));
    EXPECT_EQ(a->issued(), before + 1);
    EXPECT_EQ(held_chunks(), 0u);
    EXPECT_FALSE(watch.expired());
    held.open();
    EXPECT_TRUE(sync_on(download(std::move(there)), *a) == expected);
    EXPECT_TRUE(watch.expired());
}

TEST_F(staging, pinned_memory_without_an_owner_is_staged) {
    machine.interpreter->all_is_pinned = true;
    EXPECT_TRUE(comes_back(numbered(3 * chunk_bytes), *a));
    EXPECT_NE(held_chunks(), 0u);
}

TEST_F(staging, a_poisoned_device_refuses_uploads) {
    EXPECT_TRUE(comes_back(numbered(3 * chunk_bytes), *a));
    tensor<std::uint8_t> there(*a, {3 * chunk_bytes});
    machine.on().poison(std::make_exception_ptr(std::runtime_error("the first cause")));
    const auto values = numbered(3 * chunk_bytes);
    const copy_command whole{there.device_data(), values.data(), values.size(), copy_direction::host_to_device};
    EXPECT_THROW(machine.on().staging().upload(*a, {"upload"}, *there.memory(), whole), std::runtime_error);
    EXPECT_THROW(submit_to(*a, upload_part(values)), std::runtime_error);
}

TEST_F(staging, an_upload_in_flight_throws_the_cause_when_its_device_is_poisoned) {
    gate held(*a);
    auto values = std::make_unique<std::vector<std::uint8_t>>(numbered(20 * chunk_bytes));
    auto refused = std::async(std::launch::async, [&] {
        EXPECT_THROW(submit_to(*a, upload_part(*values)), std::runtime_error);
        values.reset();  // no thread copies from it any more
    });
    while (a->issued() < 9)
        std::this_thread::yield();  // the gate and eight chunks: the upload now waits for the stream
    machine.on().poison(std::make_exception_ptr(std::runtime_error("the first cause")));
    held.open();
    refused.get();
}

TEST(staging_of_a_runtime, its_memory_is_freed_with_the_runtime) {
    std::shared_ptr<apart::limited_memory::counts> host;
    {
        apart::separate_memory_runtime machine;
        host = machine.host;
        single_stream pool(machine.on());
        const auto values = numbered(5 * chunk_bytes);
        EXPECT_EQ(sync(upload_part(values), pool).size(), values.size());
        EXPECT_NE(host->used_bytes, 0u);
    }
    EXPECT_EQ(host->used_bytes, 0u);
}

TEST(staging_of_a_runtime, an_upload_in_flight_is_refused_when_the_runtime_is_destroyed) {
    const auto values = numbered(64 * chunk_bytes);
    for (int round = 0; round < 5; ++round) {
        auto machine = std::make_unique<apart::separate_memory_runtime>();
        const stream_lease home(machine->on());
        auto refused = std::async(std::launch::async, [&] {
            try {
                for (;;) submit_to(*home, upload_part(values));
            } catch (const error& refusal) {
                EXPECT_EQ(refusal.code(), errc::runtime_closed);
            }
        });
        while (home->issued() < 10) std::this_thread::yield();
        machine.reset();
        refused.get();
    }
}

// The commands that an upload submits to the stream.

class staged_commands : public testing::Test {
protected:
    recording::recorded_runtime recorded;
    stream a = *recorded.a;
    recording::recording_stream& record = recorded.record_of(a);
};

TEST_F(staged_commands, each_part_is_one_copy_and_a_chunk_is_filled_again_when_its_copy_is_complete) {
    const auto values = numbered(10 * chunk_bytes);
    const auto there = submit_to(a, upload_part(values));
    EXPECT_EQ(record.commands, std::vector<std::string>(10, "upload"));
    EXPECT_EQ(record.awaited, (std::vector<ticket>{1, 2}));
    EXPECT_TRUE(record.waits.empty());
}

TEST_F(staged_commands, a_chunk_that_has_been_read_is_taken_without_a_wait) {
    const auto values = numbered(8 * chunk_bytes);
    const auto there = submit_to(a, upload_part(values));
    EXPECT_TRUE(record.awaited.empty());
    const std::size_t calls = recorded.first.host.calls;
    record.done = a.issued();
    a.poll();
    const auto more = submit_to(a, upload_part(values));
    EXPECT_TRUE(record.awaited.empty());
    EXPECT_EQ(recorded.first.host.calls, calls);
}

TEST_F(staged_commands, a_refused_copy_ends_the_upload_and_leaks_no_chunk) {
    const auto values = numbered(8 * chunk_bytes);
    record.refuses_the_next = true;
    EXPECT_THROW(submit_to(a, upload_part(values)), std::runtime_error);
    EXPECT_EQ(a.issued(), 0u);
    const auto there = submit_to(a, upload_part(values));
    EXPECT_EQ(record.commands.size(), 8u);
    EXPECT_EQ(recorded.first.host.used, 8 * chunk_bytes);
}

TEST_F(staged_commands, a_fault_found_while_waiting_for_a_chunk_is_thrown) {
    record.fault = std::make_exception_ptr(std::runtime_error("the cause"));
    const auto values = numbered(10 * chunk_bytes);
    EXPECT_THROW(submit_to(a, upload_part(values)), std::runtime_error);
    EXPECT_EQ(record.commands.size(), 8u);
}

TEST_F(staged_commands, a_chunk_whose_mark_could_not_be_created_is_not_filled_again) {
    const auto values = numbered(3 * chunk_bytes);
    record.refuses_marks = true;
    EXPECT_THROW(submit_to(a, upload_part(values)), std::runtime_error);
    EXPECT_EQ(record.commands.size(), 1u);
    record.refuses_marks = false;
    recorded.on.trim();
    EXPECT_EQ(record.awaited, std::vector<ticket>{1});
    EXPECT_EQ(recorded.first.host.used, 0u);
}

}  // namespace
}  // namespace sluice::staging_tests
