// SPDX-License-Identifier: Apache-2.0
// The pool divides and joins blocks. A naive model knows, for each 256 bytes of memory, the last writer and the readers
// since, and what the recorded waits order; every access must come after those of the same bytes, whatever blocks they
// were in.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "runtime/recording_backend.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/memory_pool.hpp"

namespace sluice::recording::pool_division_tests {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t streams = 3;
constexpr std::size_t cell_bytes = 256;

using clock = std::array<ticket, streams>;  // by stream: commands up to this one come before

void join(clock& to, const clock& other) {
    for (std::size_t i = 0; i < streams; ++i) to[i] = std::max(to[i], other[i]);
}

struct cell {
    std::size_t writer = 0;
    ticket written = 0;
    clock read{};
};

class model {
public:
    explicit model(recorded_runtime& of) : of_(of), on_{*of.a, *of.b, *of.c} {
        for (auto& each : clocks_) each.push_back({});
    }

    const stream& at(std::size_t index) const { return on_[index]; }

    // Submits the command, and checks it. Returns how many waits it needed.
    std::size_t submit(std::size_t index, const std::vector<storage*>& reads, const std::vector<storage*>& writes) {
        recording_stream& record = of_.record_of(on_[index]);
        const std::size_t before = record.waits.size();
        clock known = clocks_[index].back();
        for (std::size_t q = 0; q < streams; ++q) learn(known, q, on_[q].queue().passed());
        const ticket number = run(on_[index], reads, writes);
        for (std::size_t i = before; i < record.waits.size(); ++i)
            learn(known, record.waits[i].other, record.waits[i].upto);
        for (storage* each : reads) access(*each, index, number, access_mode::read, known);
        for (storage* each : writes) access(*each, index, number, access_mode::write, known);
        known[index] = number;
        clocks_[index].push_back(known);
        EXPECT_EQ(clocks_[index].size(), number + 1);
        return record.waits.size() - before;
    }

private:
    void learn(clock& known, std::size_t other, ticket upto) {
        join(known, clocks_[other][upto]);
        known[other] = std::max(known[other], upto);
    }

    void access(const storage& what, std::size_t index, ticket number, access_mode mode, const clock& known) {
        const auto begin = reinterpret_cast<std::uintptr_t>(what.data()) / cell_bytes;
        const auto end = (reinterpret_cast<std::uintptr_t>(what.data()) + what.capacity_bytes() - 1) / cell_bytes;
        for (auto at = begin; at <= end; ++at) {
            cell& its = cells_[at];
            const auto is_before = [&](std::size_t q, ticket t) { return q == index || known[q] >= t; };
            ASSERT_TRUE(is_before(its.writer, its.written))
                << "command " << number << " of stream " << index << " does not come after the write " << its.written
                << " of stream " << its.writer;
            if (mode == access_mode::read) {
                its.read[index] = number;
                continue;
            }
            for (std::size_t q = 0; q < streams; ++q) {
                ASSERT_TRUE(is_before(q, its.read[q]))
                    << "command " << number << " of stream " << index << " does not come after the read " << its.read[q]
                    << " of " << q;
            }
            its = {.writer = index, .written = number};
        }
    }

    recorded_runtime& of_;
    const std::array<stream, streams> on_;
    std::array<std::vector<clock>, streams> clocks_;  // by stream and ticket
    std::map<std::uintptr_t, cell> cells_;
};

struct held {
    storage_ref memory;
    std::size_t by;
    bool is_used;
};

void expect_apart(const std::vector<held>& all) {
    std::map<const std::byte*, std::size_t> by_address;
    for (const held& each : all)
        by_address.emplace(static_cast<const std::byte*>(each.memory->data()), each.memory->capacity_bytes());
    ASSERT_EQ(by_address.size(), all.size());
    const std::byte* end = nullptr;
    for (const auto& [begin, bytes] : by_address) {
        ASSERT_GE(begin, end);
        end = begin + bytes;
    }
}

TEST(pool_division, accesses_come_after_all_earlier_ones_of_the_same_bytes_however_blocks_are_divided_and_joined) {
    for (unsigned seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        recorded_runtime recorded;
        recorded.first.memory.limit = mebibyte;
        model checked(recorded);
        std::mt19937 random(seed);
        const auto below = [&](std::size_t n) { return random() % n; };
        std::vector<held> all;
        for (int step = 0; step < 1500 && !testing::Test::HasFatalFailure(); ++step) {
            const std::size_t what = below(10);
            if (what < 4) {
                const std::size_t bytes = std::size_t{1} << below(18);
                const std::size_t by = below(streams);
                try {
                    storage_ref made = checked.at(by).allocate(bytes + below(bytes));
                    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(made->data()) % 256, 0u);
                    if (below(3) == 0) continue;  // returned without a use: only the history keeps other streams away
                    all.push_back({std::move(made), by, false});
                    ASSERT_NO_FATAL_FAILURE(expect_apart(all));
                } catch (const out_of_memory&) {
                    if (!all.empty()) all.erase(all.begin() + static_cast<std::ptrdiff_t>(below(all.size())));
                }
            } else if (what < 6) {
                if (!all.empty()) all.erase(all.begin() + static_cast<std::ptrdiff_t>(below(all.size())));
            } else if (what < 9) {
                if (all.empty()) continue;
                held& one = all[below(all.size())];
                held& other = all[below(all.size())];
                const bool is_first = !one.is_used;
                const std::size_t by = is_first ? one.by : below(streams);
                std::vector<storage*> reads;
                if (!is_first && &other != &one) reads.push_back(other.memory.get());
                const bool writes = is_first || below(2) == 0;
                if (!writes) reads.push_back(one.memory.get());
                const std::size_t waits =
                    checked.submit(by, reads, writes ? std::vector{one.memory.get()} : std::vector<storage*>{});
                // What a stream gets is ready for it.
                if (is_first) {
                    EXPECT_EQ(waits, 0u);
                }
                one.is_used = other.is_used = true;
            } else {
                if (below(4) != 0) continue;
                const std::size_t of = below(streams);
                const stream& on = checked.at(of);
                ticket& done = recorded.record_of(on).done;
                done = std::max(done, on.issued() - std::min<ticket>(on.issued(), below(8)));
            }
        }
        all.clear();
        recorded.on.trim();
        EXPECT_EQ(recorded.first.memory.used, 0u);
    }
}

class pool_division_test : public testing::Test {
protected:
    recorded_runtime recorded;
    recording_memory& source = recorded.first.memory;
    memory_pool& pool = recorded.on.device_pool();
    stream a = *recorded.a;
    stream b = *recorded.b;

    // Eight free blocks of one MiB, and a source that has no more.
    void fill_with_free_blocks() {
        source.limit = 8 * mebibyte;
        std::vector<storage_ref> all;
        for (int i = 0; i < 8; ++i) all.push_back(a.allocate(mebibyte));
    }
};

TEST_F(pool_division_test, a_piece_of_a_free_block_is_used_when_the_source_has_no_more) {
    fill_with_free_blocks();
    const storage_ref piece = a.allocate(mebibyte / 4), next = a.allocate(mebibyte / 4);
    EXPECT_EQ(static_cast<const std::byte*>(next->data()) - static_cast<const std::byte*>(piece->data()),
              static_cast<std::ptrdiff_t>(mebibyte / 4));
    EXPECT_EQ(source.returns, 0u);
    EXPECT_EQ(pool.usage().cached_bytes, 15 * mebibyte / 2);
}

TEST_F(pool_division_test, free_pieces_are_joined_and_the_source_gets_back_what_it_gave) {
    fill_with_free_blocks();
    const void* whole = nullptr;
    {
        const storage_ref x = a.allocate(mebibyte / 4), y = a.allocate(mebibyte / 2);
        whole = x->data();
        EXPECT_EQ(pool.trim(), 7 * mebibyte);  // a part of one of the source's blocks is in use
    }
    source.limit = mebibyte;
    EXPECT_EQ(a.allocate(mebibyte)->data(), whole);
    EXPECT_EQ(pool.trim(), mebibyte);
    EXPECT_EQ(source.used, 0u);
}

TEST_F(pool_division_test, the_last_whole_blocks_are_not_divided_but_returned_for_what_fits) {
    source.limit = mebibyte;
    a.allocate(mebibyte);
    const storage_ref x = a.allocate(mebibyte / 4);
    EXPECT_EQ(source.returns, 1u);
    EXPECT_EQ(source.used, mebibyte / 4);
}

TEST_F(pool_division_test, pieces_that_another_stream_still_uses_are_not_joined_before_it_has_passed) {
    fill_with_free_blocks();
    {
        const storage_ref x = a.allocate(mebibyte / 2), y = b.allocate(mebibyte / 2);
        ASSERT_EQ(static_cast<std::byte*>(x->data()) + mebibyte / 2, y->data());
        write(a, x);
        write(b, y);
        pool.trim();
    }
    source.limit = mebibyte;
    recorded.record_of(b).on_poll = [&] { recorded.record_of(b).done = 1; };
    const storage_ref z = a.allocate(mebibyte);
    EXPECT_EQ(b.passed(), 1u);
    EXPECT_EQ(source.returns, 7u);
    EXPECT_TRUE(recorded.record_of(b).awaited.empty());
}

TEST_F(pool_division_test, a_trim_to_a_size_keeps_that_much) {
    for (std::size_t i = 0; i < 8; ++i) {
        const storage_ref held = a.allocate(mebibyte << (i % 2));
        const storage_ref other = b.allocate(3 * mebibyte + i * mebibyte);
    }
    const std::size_t before = source.used;
    ASSERT_GT(before, 16 * mebibyte);
    pool.trim(16 * mebibyte);
    EXPECT_LE(source.used, 16 * mebibyte);
    EXPECT_GT(source.used, 0u);
    recorded.on.trim(2 * mebibyte);
    EXPECT_LE(source.used, 2 * mebibyte);
}

struct steady_state {
    std::size_t source_calls = 0;
    std::size_t refused = 0;
};

// What the second half of that many allocations of 1 kB to 6 MB needs, with at most that many bytes in use. No two
// blocks in use have a byte in common.
steady_state with_sizes_that_vary(memory_pool& pool, const stream& a, const stream& b, std::size_t most_bytes,
                                  unsigned seed) {
    constexpr int allocations = 4000;
    std::mt19937 random(seed);
    std::vector<storage_ref> live;
    std::map<const std::byte*, const std::byte*> taken;  // from, to
    std::size_t bytes_in_use = 0, calls_before = 0;
    steady_state seen;
    for (int i = 0; i < allocations; ++i) {
        if (i == allocations / 2) calls_before = pool.usage().source_calls;
        const std::size_t bytes = (1 + random() % 6000) * 1000;
        while (bytes_in_use + bytes > most_bytes) {
            const auto gone = live.begin() + static_cast<std::ptrdiff_t>(random() % live.size());
            bytes_in_use -= (*gone)->capacity_bytes();
            taken.erase(static_cast<const std::byte*>((*gone)->data()));
            live.erase(gone);
        }
        try {
            live.push_back((i % 2 == 0 ? a : b).allocate(bytes));
        } catch (const out_of_memory&) {
            seen.refused += i >= allocations / 2 ? 1 : 0;
            continue;
        }
        bytes_in_use += live.back()->capacity_bytes();
        const auto* const from = static_cast<const std::byte*>(live.back()->data());
        const auto next = taken.lower_bound(from);
        EXPECT_TRUE(next == taken.end() || from + live.back()->capacity_bytes() <= next->first);
        EXPECT_TRUE(next == taken.begin() || std::prev(next)->second <= from);
        taken.emplace(from, from + live.back()->capacity_bytes());
    }
    seen.source_calls = pool.usage().source_calls - calls_before;
    return seen;
}

// The sizes vary, and at most half of the memory is in use.
TEST_F(pool_division_test, with_half_of_the_memory_in_use_at_most_one_allocation_in_a_hundred_calls_the_source) {
    for (const unsigned seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
        recorded.on.trim();
        source.limit = 64 * mebibyte;
        EXPECT_LE(with_sizes_that_vary(pool, a, b, 32 * mebibyte, seed).source_calls, 2000u / 100) << "seed " << seed;
    }
}

// Pieces in use keep whole blocks of the source. They must not make large blocks impossible where there is memory.
TEST_F(pool_division_test, with_most_of_the_memory_in_use_it_refuses_nothing_that_undivided_blocks_would_give) {
    for (const std::size_t most_mebibytes : {40u, 48u, 50u, 52u, 56u}) {
        for (const unsigned seed : {1u, 2u, 3u}) {
            recorded.on.trim();
            source.limit = 64 * mebibyte;
            source.divisible = true;
            const steady_state divided = with_sizes_that_vary(pool, a, b, most_mebibytes * mebibyte, seed);
            recorded.on.trim();
            source.divisible = false;
            const steady_state undivided = with_sizes_that_vary(pool, a, b, most_mebibytes * mebibyte, seed);
            EXPECT_EQ(divided.refused, 0u) << most_mebibytes << " MiB, seed " << seed;
            EXPECT_EQ(undivided.refused, 0u) << most_mebibytes << " MiB, seed " << seed;
            EXPECT_LE(divided.source_calls, undivided.source_calls / 20 * 21)
                << most_mebibytes << " MiB, seed " << seed;
        }
    }
}

// What a stream still uses is not waited for where other memory is free.
TEST_F(pool_division_test, a_crowded_pool_does_not_wait_where_other_memory_is_free) {
    source.limit = 16 * mebibyte;
    std::vector<storage_ref> held;
    held.reserve(5);
    for (int i = 0; i < 3; ++i) held.push_back(a.allocate(4 * mebibyte));
    {
        const storage_ref used = b.allocate(2 * mebibyte), unused = a.allocate(2 * mebibyte);
        EXPECT_THROW(static_cast<void>(a.allocate(mebibyte)), out_of_memory);  // the source has no more
        write(b, used);
    }
    // 12 of 16 MiB are in use, and one of the two free blocks may still be used.
    const storage_ref next = a.allocate(mebibyte);
    EXPECT_TRUE(recorded.record_of(b).awaited.empty());
}

}  // namespace
}  // namespace sluice::recording::pool_division_tests
