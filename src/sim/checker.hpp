// SPDX-License-Identifier: Apache-2.0
// The simulator's checks: keeps the shadow memory and the host's clock, and records findings. It knows nothing of the
// runtime's histories and tickets, only which commands really ran and which waits really happened.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/block.hpp"
#include "sim/vector_clock.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/sim/finding.hpp"

namespace sluice::sim::detail {

// Describes what a thread did at a moment.
class checked_machine {
public:
    virtual actor describe(thread_index thread, moment when) const = 0;

protected:
    ~checked_machine() = default;
};

// "file:line"; empty when the line is not known.
std::string line_of(const source_location& location);

// A command as the checks identify it.
struct command_ref {
    thread_index thread;
    moment when;
};

// What a command named when it was submitted.
struct named_block {
    block* what;
    byte_range range;
    std::uint32_t life;
    std::uint32_t lease;
    access_mode mode;
};

class checker {
public:
    explicit checker(const checked_machine& machine) : machine_(machine) {}

    void begin(std::uint64_t seed);

    // The host's clock: what it has seen passed. Commands that it submits are ordered after that.
    bool host_knows(thread_index thread, moment when) const noexcept { return host_.covers(thread, when); }
    void host_observes(const vector_clock& what) noexcept {
        host_.join(what);
        host_has_learnt_ = true;
    }
    // Another host thread runs from here on; `other` is what it has seen passed. All host threads know the host's own
    // memory accesses: the locks of the pools order them.
    const vector_clock& host() const noexcept { return host_; }
    void switch_host_thread(const vector_clock& other) noexcept {
        const moment touches = host_.upto[host_thread];
        host_ = other;
        host_.upto[host_thread] = touches;
        host_has_learnt_ = true;
    }
    // A number for the host's clock as it is now; valid until begin().
    std::uint32_t snapshot();
    const vector_clock& snapshot(std::uint32_t number) const noexcept { return snapshots_[number]; }

    // Changes of memory, as its source and the pools report them.
    void scramble(block& what) const noexcept;  // fills it with this schedule's garbage
    void on_allocate(block& what, std::size_t requested_bytes, bool to_host);
    void on_free(block& what) noexcept { what.is_lent = false; }
    // Memory of others, with their contents, is used from here on.
    // What is known of accesses to the same bytes under other names stays known.
    void on_adopt(block& what, std::span<block* const> all);
    void freed(block& what);
    // The host, or the running command, accesses it.
    void touched(block& what, access_mode mode);

    // A command is submitted with these accesses.
    void names(command_ref who, std::span<const named_block> accesses);
    // The command is a copy or a fill of these bytes. `is_ours`: they must be in memory of the simulator.
    void check_range(command_ref who, std::span<const named_block> accesses, std::span<block* const> all,
                     const void* from, std::size_t bytes, access_mode mode, bool is_ours);

    // The command runs. `known` is what happens before it, and itself.
    void runs(command_ref who, std::span<const named_block> accesses, const vector_clock& known);
    void has_run() noexcept { running_ = nullptr; }
    // The command was in flight when its device broke down: its end will never be seen.
    static void mark_unfinished(command_ref who, std::span<const named_block> accesses) noexcept;
    // A digest of the memory that these accesses name as read only; large blocks are left out.
    static std::uint64_t contents_only_read(std::span<const named_block> accesses) noexcept;
    bool is_running() const noexcept { return running_ != nullptr; }

    void report(fault what, std::string message, actor first = {}, actor second = {}, const block* memory = nullptr);
    void report(fault what, const actor& who, const std::string& did, const block* memory = nullptr);
    std::vector<finding>& findings() noexcept { return findings_; }

    std::uint32_t garbage = 0;  // the byte with which undefined contents are filled in this schedule

private:
    struct conflict {
        command_ref earlier;
        access_mode mode;
    };
    // Records an access; returns the earlier access that conflicts with it without an order, if there is one.
    std::optional<conflict> note(block& what, const byte_range& range, access_mode mode, command_ref who,
                                 const vector_clock& known);
    std::optional<conflict> find_conflict(access_record& with, access_mode mode, const vector_clock& known) noexcept;
    void report(const conflict& with, command_ref who, access_mode mode, const block& what);
    void host_touches(block& what, access_mode mode, bool frees);
    bool is_in_unfinished_use(const block& what, access_mode mode, bool frees);
    std::string name_of(const block& what) const;

    const checked_machine& machine_;
    std::uint64_t seed_ = 0;
    std::uint64_t schedule_ = 0;
    std::uint32_t leases_ = 0;  // of this schedule
    vector_clock host_;
    bool host_has_learnt_ = true;  // since the last snapshot
    std::vector<vector_clock> snapshots_;
    command_ref running_who_{};
    const vector_clock* running_ = nullptr;
    std::vector<finding> findings_;
};

}  // namespace sluice::sim::detail
