// SPDX-License-Identifier: Apache-2.0
// The memory pool of a device: which blocks it reuses, its statistics, and its error when memory runs out.
#include <cstdint>

#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "sluice/kernels/elementwise.hpp"

namespace sluice::conformance::memory_tests {
namespace {

class memory : public conformance_test {
protected:
    memory_pool::statistics usage() { return on.device_pool().usage(); }

    round_robin streams{on, 2};
    stream a = streams.next();
    stream b = streams.next();
};
INSTANTIATE_TEST_SUITE_P(, memory, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(memory, a_stream_gets_its_own_block_back_without_a_call_of_the_source) {
    {
        tensor<float> first(a, {10'000});
    }
    const auto before = usage();
    const float* block = nullptr;
    for (int i = 0; i < 100; ++i) {
        auto x = submit_to(a, zeros<float>({10'000}));  // still being written when it is freed
        if (block == nullptr) block = x.device_data();
        EXPECT_EQ(x.device_data(), block);
    }
    EXPECT_EQ(usage().source_calls, before.source_calls);
    EXPECT_EQ(usage().allocations, before.allocations + 100);
}

TEST_P(memory, another_stream_gets_fresh_memory_while_a_block_is_still_in_use) {
    NEEDS_A_GATE();
    auto warm = submit_to(a, full<unsigned>({10'000}, 1));
    step_on(a, warm, 1);
    a.wait(a.issued(), wait_mode::block);
    const unsigned* const block = warm.device_data();
    gate held(a);
    step_on(a, warm, 2);
    warm = {};
    const tensor<unsigned> other(b, {10'000});
    EXPECT_NE(other.device_data(), block);
    const tensor<unsigned> same(a, {10'000});
    EXPECT_EQ(same.device_data(), block);
}

TEST_P(memory, another_stream_gets_a_block_that_is_no_longer_in_use) {
    auto x = submit_to(a, zeros<float>({10'000}));
    const float* const block = x.device_data();
    a.wait(a.issued(), wait_mode::block);
    x = {};
    EXPECT_EQ(tensor<float>(b, {10'000}).device_data(), block);
}

TEST_P(memory, the_statistics_add_up) {
    const auto start = usage();
    {
        const tensor<char> x(a, {1000}), y(b, {100'000});
        const auto held = usage();
        EXPECT_GE(held.in_use_bytes - start.in_use_bytes, 101'000u);
        EXPECT_LE(held.in_use_bytes - start.in_use_bytes, 101'000u * 9 / 8);
        EXPECT_EQ(held.allocations, start.allocations + 2);
    }
    EXPECT_EQ(usage().in_use_bytes, start.in_use_bytes);
    EXPECT_GE(usage().cached_bytes, 101'000u);
}

TEST_P(memory, trim_frees_cached_blocks_and_nothing_else) {
    auto kept = submit_to(a, full<std::uint8_t>({70'000}, 9));
    {
        tensor<char> x(a, {1 << 20}), y(b, {3000});
    }
    const std::size_t cached = usage().cached_bytes;
    ASSERT_GE(cached, (1u << 20) + 3000);
    EXPECT_EQ(on.device_pool().trim(), cached);
    EXPECT_EQ(usage().cached_bytes, 0u);
    EXPECT_GE(usage().in_use_bytes, 70'000u);
    EXPECT_EQ(on.device_pool().trim(), 0u);
    on.trim();
    EXPECT_EQ(on.host_pool().usage().cached_bytes, 0u);
    EXPECT_EQ(contents(std::move(kept), b), std::vector<std::uint8_t>(70'000, 9));
}

TEST_P(memory, trim_waits_for_work_that_still_uses_cached_blocks) {
    for (int i = 0; i < 10; ++i) {
        auto x = submit_to(a, full<unsigned>({1000}, 1));
        step_on(a, x, 1, slow());
        x = {};
        on.trim();  // a sanitizer or the device would see the use after free
        EXPECT_EQ(usage().cached_bytes, 0u);
    }
    on.synchronize();
}

TEST_P(memory, blocks_are_aligned_and_large_enough) {
    for (const std::size_t bytes : {0u, 1u, 511u, 512u, 513u, 4097u, 1'000'000u, 5'000'001u}) {
        const buffer<char> block(a, bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.device_data()) % 256, 0u) << bytes;
        EXPECT_GE(block.memory()->capacity_bytes(), bytes);
        EXPECT_EQ(block.size_bytes(), bytes);
        const host_buffer<char> host(a, bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host.device_data()) % 256, 0u) << bytes;
    }
}

TEST_P(memory, a_request_that_is_too_large_reports_requested_and_free_bytes_and_breaks_nothing) {
    constexpr std::size_t bytes = std::size_t{1} << 40;
    const std::size_t before = bytes_in_use();
    const auto line = sluice::source_location::current();
    try {
        sluice::sync(uninitialized<char>({bytes}, line), streams);
        FAIL() << "nothing was thrown";
    } catch (const out_of_memory& refusal) {
        EXPECT_EQ(refusal.code(), errc::out_of_memory);
        EXPECT_EQ(refusal.operation(), "uninitialized");
        EXPECT_EQ(refusal.device(), GetParam().device);
        EXPECT_EQ(refusal.location().line(), line.line());
        EXPECT_EQ(refusal.requested_bytes(), bytes);
        EXPECT_GT(refusal.free_bytes(), 0u);
        EXPECT_LT(refusal.free_bytes(), bytes);
        EXPECT_NE(std::string(refusal.what()).find(std::to_string(bytes)), std::string::npos) << refusal.what();
    }
    EXPECT_EQ(bytes_in_use(), before);
    EXPECT_EQ(sluice::sync(full<int>({1000}, 4).and_then(download), streams), std::vector<int>(1000, 4));
}

TEST_P(memory, a_number_of_bytes_that_overflows_is_out_of_memory) {
    EXPECT_THROW(sync(zeros<double>({std::size_t{1} << 62}), streams), out_of_memory);
    EXPECT_THROW(sync(zeros<char>({std::size_t{1} << 62}), streams), out_of_memory);
    EXPECT_THROW(host_buffer<double>(a, std::size_t{1} << 62), out_of_memory);
    EXPECT_THROW(on.device_pool().allocate(~std::size_t{0}, &a.queue(), {"test"}), out_of_memory);
}

TEST_P(memory, free_memory_counts_what_the_pool_has_cached) {
    const std::size_t before = on.memory().free_bytes;
    EXPECT_GT(on.memory().total_bytes, 0u);
    EXPECT_LE(before, on.memory().total_bytes + usage().cached_bytes);
}

TEST_P(memory, the_workspace_of_a_stream_only_grows) {
    const storage_ref small = a.workspace(1000);
    EXPECT_EQ(a.workspace(10).get(), small.get());
    const storage_ref large = a.workspace(1'000'000);
    EXPECT_NE(large.get(), small.get());
    EXPECT_GE(large->capacity_bytes(), 1'000'000u);
    EXPECT_EQ(a.workspace(1000).get(), large.get());
    EXPECT_NE(b.workspace(1000).get(), large.get());
}

}  // namespace sluice::conformance::memory_tests
