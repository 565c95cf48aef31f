// SPDX-License-Identifier: Apache-2.0
// A block of simulated memory and its shadow: its uses in this schedule, and what may be done with it. Parts of a block
// (runtime/parts.hpp) have shadows of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "sim/vector_clock.hpp"
#include "sluice/runtime/command.hpp"

namespace sluice::sim::detail {

// The accesses to a range of memory in the schedule `seen_in`: the last write, and each thread's last read since.
struct access_record {
    std::uint64_t seen_in = 0;
    thread_index writer = 0;
    moment written_at = 0;
    std::uint32_t readers = 0;  // one bit per thread
    std::array<moment, max_threads> read_at{};
};

// Some of the bytes of a block.
struct byte_range {
    std::size_t begin = 0;
    std::size_t bytes = 0;

    std::size_t end() const noexcept { return begin + bytes; }
    bool overlaps(const byte_range& other) const noexcept {
        return bytes != 0 && other.bytes != 0 && begin < other.end() && other.begin < end();
    }
    friend bool operator==(const byte_range&, const byte_range&) = default;
};

// The shadow of a part that commands name.
struct part_shadow {
    byte_range range;
    access_record used;
    bool is_written = false;  // as in block
};

// Lies directly before the bytes that it describes, so it is found from the storage's address. (The shadow of memory of
// others lies before an address at which nothing is, by which the storage names it.) It is not freed while the
// simulator exists, so a use of freed memory still finds the shadow.
struct block {
    std::size_t bytes = 0;
    std::size_t requested_bytes = 0;  // of them, by the current owner
    std::size_t device = 0;
    bool is_host = false;
    std::byte* foreign = nullptr;  // where the memory is that others allocated; null for memory of the simulator

    bool is_live = false;     // the source has handed it out
    bool is_lent = false;     // the pool has handed it out
    bool is_written = false;  // a command that writes it has been submitted, or it was allocated for the host to write
    std::uint32_t life = 0;   // counts how often the source handed it out
    std::uint32_t lease = 0;  // counts how often the pool handed it out
    std::uint32_t first_used_in = 0;  // the last lease in which a command has run
    std::uint32_t number = 0;         // for reports: the lease's number in its schedule
    std::uint64_t numbered_in = 0;

    access_record used;              // by commands that name the whole block
    std::vector<part_shadow> parts;  // of this lease; in the order of their begins

    // A command that was in flight when its device broke down may use the block at any later time.
    std::uint32_t doomed_in_life = 0;
    access_mode doomed_mode = access_mode::read;
    thread_index unfinished_by = 0;
    moment doomed_at = 0;

    static constexpr std::size_t header_bytes = 512;
    // By which storage names it: storage::source_address.
    std::byte* name() noexcept { return reinterpret_cast<std::byte*>(this) + header_bytes; }
    static block& of(void* name) noexcept {
        return *std::launder(reinterpret_cast<block*>(static_cast<std::byte*>(name) - header_bytes));
    }
    std::byte* data() noexcept { return foreign != nullptr ? foreign : name(); }
    byte_range whole() const noexcept { return {0, bytes}; }
    // Whether these bytes lie in this range of the block.
    bool contains(const byte_range& range, const void* from, std::size_t count) noexcept {
        const std::byte* const begin = data() + range.begin;
        const std::byte* const end = begin + range.bytes;
        const auto* const first = static_cast<const std::byte*>(from);
        return first >= begin && first < end && count <= static_cast<std::size_t>(end - first);
    }
    bool contains(const void* from, std::size_t count) noexcept { return contains(whole(), from, count); }
    bool overlaps(const void* from, std::size_t count) noexcept {
        const auto* const first = static_cast<const std::byte*>(from);
        return first < data() + bytes && data() < first + count;
    }
};
static_assert(sizeof(block) <= block::header_bytes);

}  // namespace sluice::sim::detail
