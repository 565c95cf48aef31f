// SPDX-License-Identifier: Apache-2.0
#include "sluice/runtime/memory_pool.hpp"

#include <gmock/gmock.h>

#include <latch>
#include <mutex>
#include <thread>

#include "runtime/recording_backend.hpp"
#include "sluice/base/error.hpp"

namespace sluice::recording::memory_pool_tests {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

class memory_pool_test : public testing::Test {
protected:
    recorded_runtime recorded;
    recording_memory& source = recorded.first.memory;
    memory_pool& pool = recorded.on.device_pool();
    stream a = *recorded.a;
    stream b = *recorded.b;
};

}  // namespace

TEST_F(memory_pool_test, rounding_wastes_at_most_an_eighth) {
    for (std::size_t bytes = 512; bytes < 5'000'000; bytes += bytes / 7 + 1) {
        const std::size_t capacity = a.allocate(bytes)->capacity_bytes();
        EXPECT_GE(capacity, bytes);
        EXPECT_LE(capacity, bytes + bytes / 8) << bytes;
    }
    for (const std::size_t bytes : {512u, 576u, 640u, 1024u, 1152u, 65536u}) {
        EXPECT_EQ(a.allocate(bytes)->capacity_bytes(), bytes);  // the sizes of the classes
    }
}

TEST_F(memory_pool_test, small_requests_share_one_size) {
    EXPECT_EQ(a.allocate(0)->capacity_bytes(), 512u);
    EXPECT_EQ(a.allocate(1)->capacity_bytes(), 512u);
    EXPECT_EQ(a.allocate(512)->capacity_bytes(), 512u);
    EXPECT_EQ(a.allocate(513)->capacity_bytes(), 576u);
}

TEST_F(memory_pool_test, a_block_is_reused_for_any_size_of_its_class) {
    const storage* const block = a.allocate(1000).get();
    EXPECT_EQ(a.allocate(1024).get(), block);
    EXPECT_EQ(a.allocate(961).get(), block);
    EXPECT_NE(a.allocate(960).get(), block);
    EXPECT_EQ(source.calls, 2u);
}

TEST_F(memory_pool_test, a_block_is_free_for_its_last_stream_immediately_and_for_others_when_that_stream_has_passed) {
    storage_ref x = a.allocate(1000);
    const storage* const block = x.get();
    write(a, x);
    x = {};
    const storage_ref fresh = b.allocate(1000);
    EXPECT_NE(fresh.get(), block);
    EXPECT_EQ(a.allocate(1000).get(), block);
    recorded.record_of(a).done = 1;  // the pool finds it by polling
    EXPECT_EQ(b.allocate(1000).get(), block);
}

TEST_F(memory_pool_test, a_block_with_readers_elsewhere_is_not_ready_for_its_last_writer) {
    storage_ref x = a.allocate(1000);
    const storage* const block = x.get();
    write(a, x);
    read(b, x);
    x = {};
    const storage_ref first = a.allocate(1000), second = b.allocate(1000);
    EXPECT_NE(first.get(), block);
    EXPECT_NE(second.get(), block);
}

TEST_F(memory_pool_test, host_memory_is_handed_out_only_when_no_command_uses_it) {
    storage_ref x = a.allocate_host(1000);
    const storage* const block = x.get();
    read(a, x);
    x = {};
    const storage_ref fresh = a.allocate_host(1000);
    EXPECT_NE(fresh.get(), block);
    recorded.record_of(a).done = 1;
    EXPECT_EQ(a.allocate_host(1000).get(), block);
}

// A query of a stream may wait for a thread of the driver that returns memory to the pool.
TEST_F(memory_pool_test, another_thread_may_return_memory_while_streams_are_queried) {
    storage_ref x = a.allocate(1000), y = b.allocate(1000);
    const storage* const block = y.get();
    write(a, x);
    x = {};
    recorded.record_of(a).on_poll = [&] { std::jthread([&] { y = {}; }).join(); };
    const storage_ref found = b.allocate(1000);
    EXPECT_EQ(found.get(), block);
}

TEST_F(memory_pool_test, all_queues_that_still_use_blocks_are_queried_however_many) {
    std::vector<stream_lease> many;
    for (int i = 0; i < 100; ++i) many.emplace_back(recorded.on);
    std::vector<storage_ref> blocks;
    for (const stream_lease& each : many) {
        blocks.push_back(each->allocate(1000));
        write(*each, blocks.back());
    }
    const storage* const last = blocks.back().get();
    blocks.clear();
    recorded.record_of(*many.back()).done = 1;
    EXPECT_EQ(recorded.c->allocate(1000).get(), last);
}

// With a constant number of blocks in flight, the pool stops calling the source after one round, however many blocks.
TEST_F(memory_pool_test, a_steady_state_never_calls_the_source_with_any_number_of_blocks_in_flight) {
    constexpr std::size_t in_flight = 500;
    for (std::size_t step = 1; step <= 20 * in_flight; ++step) {
        storage_ref x = a.allocate_host(1000);
        read(a, x);
        x = {};
        if (step > in_flight) recorded.record_of(a).done = step - in_flight;
    }
    EXPECT_LE(recorded.first.host.calls, in_flight + 1);
}

TEST_F(memory_pool_test, blocks_that_one_stream_still_uses_do_not_hide_those_that_another_has_passed) {
    for (int i = 0; i < 1000; ++i) {  // b makes no progress
        storage_ref stuck = b.allocate(1000);
        write(b, stuck);
        if (i % 2 == 0) read(a, stuck);
    }
    const std::size_t before = source.calls;
    for (std::size_t step = 1; step <= 1000; ++step) {
        storage_ref x = a.allocate(1000);
        write(a, x);
    }
    EXPECT_LE(source.calls, before + 1);
    recorded.record_of(a).done = a.issued();
    for (std::size_t step = 0; step < 100; ++step) {
        storage_ref x = recorded.c->allocate(1000);
        write(*recorded.c, x);
    }
    EXPECT_LE(source.calls, before + 1);
}

TEST_F(memory_pool_test, a_block_that_several_streams_used_is_found_when_the_last_of_them_has_passed) {
    storage_ref x = a.allocate(1000);
    const storage* const block = x.get();
    write(a, x);
    read(b, x);
    read(*recorded.c, x);
    x = {};
    const storage_ref first = a.allocate(1000);
    EXPECT_NE(first.get(), block);
    recorded.record_of(*recorded.c).done = 1;
    const storage_ref second = a.allocate(1000);
    EXPECT_NE(second.get(), block);
    recorded.record_of(a).done = 1;
    EXPECT_EQ(b.allocate(1000).get(), block);  // only b itself may still use it
    recorded.record_of(b).done = 1;
    EXPECT_EQ(a.allocate(1000).get(), block);
}

TEST_F(memory_pool_test, the_statistics_count_used_and_cached_bytes) {
    storage_ref x = a.allocate(mebibyte);
    storage_ref y = a.allocate(512);
    EXPECT_EQ(pool.usage().in_use_bytes, mebibyte + 512);
    EXPECT_EQ(pool.usage().cached_bytes, 0u);
    x = {};
    EXPECT_EQ(pool.usage().in_use_bytes, 512u);
    EXPECT_EQ(pool.usage().cached_bytes, mebibyte);
    x = a.allocate(mebibyte);
    EXPECT_EQ(pool.usage().cached_bytes, 0u);
    EXPECT_EQ(pool.usage().allocations, 3u);
    EXPECT_EQ(pool.usage().source_calls, 2u);
    EXPECT_EQ(source.used, mebibyte + 512);
}

TEST_F(memory_pool_test, cached_memory_counts_as_free) {
    source.limit = 10 * mebibyte;
    storage_ref x = a.allocate(4 * mebibyte);
    EXPECT_EQ(recorded.on.memory().free_bytes, 6 * mebibyte);
    x = {};
    EXPECT_EQ(recorded.on.memory().free_bytes, 10 * mebibyte);
}

TEST_F(memory_pool_test, when_memory_is_short_cached_blocks_are_returned_first) {
    source.limit = 8 * mebibyte;
    for (const std::size_t size : {mebibyte, 2 * mebibyte, 3 * mebibyte}) {
        const storage_ref x = a.allocate(size);
        write(a, x);
    }
    EXPECT_EQ(pool.usage().cached_bytes, 6 * mebibyte);
    const storage_ref large = b.allocate(7 * mebibyte);
    EXPECT_EQ(large->capacity_bytes(), 7 * mebibyte);
    EXPECT_EQ(source.returns, 2u);  // the largest first, and no more than needed
    EXPECT_EQ(pool.usage().cached_bytes, mebibyte);
    EXPECT_EQ(a.passed(), 3u);  // after their last uses
}

TEST_F(memory_pool_test, a_workspace_that_does_not_fit_doubled_is_as_large_as_requested) {
    source.limit = 100 * mebibyte;
    write(a, a.workspace(40 * mebibyte));
    EXPECT_EQ(a.workspace(48 * mebibyte)->capacity_bytes(), 48 * mebibyte);
    write(a, a.workspace(48 * mebibyte));
    EXPECT_THROW(a.workspace(56 * mebibyte), out_of_memory);
    EXPECT_EQ(a.workspace(8 * mebibyte)->capacity_bytes(), 48 * mebibyte);  // unchanged
}

TEST_F(memory_pool_test, out_of_memory_reports_requested_and_free_bytes_and_changes_nothing) {
    source.limit = 8 * mebibyte;
    const storage_ref held = a.allocate(2 * mebibyte, {"held"});
    const sluice::source_location here = sluice::source_location::current();
    try {
        a.allocate(7 * mebibyte, {"greedy", {}, here});
        FAIL() << "nothing was thrown";
    } catch (const out_of_memory& refusal) {
        EXPECT_EQ(refusal.requested_bytes(), 7 * mebibyte);
        EXPECT_EQ(refusal.free_bytes(), 6 * mebibyte);
        EXPECT_EQ(refusal.operation(), "greedy");
        EXPECT_EQ(refusal.device(), "fake:0");
        EXPECT_EQ(refusal.location().line(), here.line());
        EXPECT_THAT(refusal.what(), testing::HasSubstr("asked for 7340032 bytes, 6291456 bytes are free"));
    }
    EXPECT_EQ(pool.usage().in_use_bytes, 2 * mebibyte);
    EXPECT_EQ(a.allocate(6 * mebibyte)->capacity_bytes(), 6 * mebibyte);
}

TEST_F(memory_pool_test, a_failure_of_the_memory_source_is_thrown_and_changes_nothing) {
    source.fails = true;
    EXPECT_THROW(a.allocate(1000), std::runtime_error);
    source.fails = false;
    EXPECT_EQ(pool.usage().in_use_bytes, 0u);
    EXPECT_EQ(a.allocate(1000)->capacity_bytes(), 1024u);
}

TEST_F(memory_pool_test, trimming_waits_for_the_last_uses) {
    {
        const storage_ref x = a.allocate(1000);
        write(a, x);
        read(b, x);
    }
    EXPECT_EQ(pool.trim(), 1024u);
    EXPECT_THAT(recorded.record_of(a).awaited, testing::ElementsAre(1));
    EXPECT_THAT(recorded.record_of(b).awaited, testing::ElementsAre(1));
    EXPECT_EQ(source.used, 0u);
}

TEST_F(memory_pool_test, memory_that_a_faulted_device_may_still_access_is_never_returned) {
    {
        const storage_ref x = a.allocate(1000);
        write(a, x);
        const storage_ref unused = a.allocate(2000);
    }
    recorded.record_of(a).fault = std::make_exception_ptr(std::runtime_error("fault"));
    EXPECT_EQ(pool.trim(), 2048u);
    EXPECT_EQ(pool.usage().cached_bytes, 1024u);
    EXPECT_EQ(source.used, 1024u);
}

TEST_F(memory_pool_test, a_reference_keeps_its_block_and_the_last_one_returns_it) {
    storage_ref x = a.allocate(1000);
    storage_ref second = x;
    storage_ref third = std::move(x);
    second = {};
    EXPECT_EQ(pool.usage().in_use_bytes, 1024u);
    third = {};
    EXPECT_EQ(pool.usage().in_use_bytes, 0u);
}

TEST_F(memory_pool_test, memory_that_a_trim_on_another_thread_is_returning_can_be_allocated) {
    source.limit = 3 * mebibyte;
    a.allocate(2 * mebibyte);
    std::latch is_returning(1), was_refused(1);
    std::once_flag once;
    source.before_free = [&] {
        is_returning.count_down();
        was_refused.wait();
    };
    source.refused = [&] { std::call_once(once, [&] { was_refused.count_down(); }); };
    std::thread trimming([&] { pool.trim(); });
    is_returning.wait();
    EXPECT_NO_THROW(b.allocate(2 * mebibyte + 1));
    trimming.join();
    source.before_free = source.refused = {};  // they use the latches, which are destroyed here
}

TEST(memory_pool_of_a_runtime_that_is_gone, lives_until_the_last_block_is_returned) {
    storage_ref kept;
    {
        recorded_runtime recorded;
        kept = recorded.a->allocate(1000);
        write(*recorded.a, kept);
    }
    EXPECT_EQ(kept->capacity_bytes(), 1024u);
    kept->await_all_uses();
}

}  // namespace sluice::recording::memory_pool_tests
