// The simulator's judge: keeps the shadow of the memory and the host's clock, and writes down what goes wrong. It knows
// nothing of the runtime's histories and tickets, only of what was really run and waited for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/block.hpp"
#include "sim/vector_clock.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/sim/finding.hpp"

namespace sluice::sim::detail {

// Who can say what a thread did at a moment.
class witness {
public:
    virtual actor describe(thread_index thread, moment when) const = 0;

protected:
    ~witness() = default;
};

// "file:line"; empty when the line is not known.
std::string line_of(const source_location& where);

// A command as the checks know it.
struct command_ref {
    thread_index thread;
    moment when;
};

// What a command named when it was submitted.
struct named_block {
    block* what;
    std::uint32_t life;
    std::uint32_t lease;
    access_mode mode;
};

class checker {
public:
    explicit checker(const witness& who) : witness_(who) {}

    void begin(std::uint64_t seed);

    // The host's clock: what it has seen passed. Commands that it submits come after that.
    bool host_knows(thread_index thread, moment when) const noexcept { return host_.covers(thread, when); }
    void host_learns(const vector_clock& what) noexcept {
        host_.join(what);
        host_has_learnt_ = true;
    }
    // A number for the host's clock as it is now, until begin().
    std::uint32_t snapshot();
    const vector_clock& snapshot(std::uint32_t number) const noexcept { return snapshots_[number]; }

    // Memory, as its source and pools have it.
    void lent(block& what, std::size_t asked_bytes, bool to_host);
    void returned(block& what) noexcept { what.is_lent = false; }
    void freed(block& what);
    // The host, or the command that runs, touches it.
    void touched(block& what, access_mode mode);

    // A command is submitted.
    void names(command_ref who, std::span<const named_block> accesses);
    // It is a copy or a fill of these bytes. `is_ours`: they must be memory of the simulator's.
    void names_range(command_ref who, std::span<const named_block> accesses, std::span<block* const> all,
                     const void* from, std::size_t bytes, access_mode mode, bool is_ours);

    // It runs; `known`, what happens before it and itself.
    void runs(command_ref who, std::span<const named_block> accesses, const vector_clock& known);
    void has_run() noexcept { running_ = nullptr; }
    // It was in flight when its device broke down: it will not be seen to end.
    static void never_ends(command_ref who, std::span<const named_block> accesses) noexcept;
    // A digest of the memory that these name as read only, as far as it is not large.
    static std::uint64_t contents_only_read(std::span<const named_block> accesses) noexcept;
    bool is_running() const noexcept { return running_ != nullptr; }

    void report(fault what, std::string message, actor first = {}, actor second = {}, const block* where = nullptr);
    void report(fault what, const actor& who, const std::string& did, const block* where = nullptr);
    std::vector<finding>& findings() noexcept { return findings_; }

    std::uint32_t garbage = 0;  // the byte that undefined contents consist of, in this schedule

private:
    struct conflict {
        command_ref earlier;
        access_mode mode;
    };
    // Notes an access; the earlier one that conflicts with it in no order, if there is one.
    std::optional<conflict> note(block& what, access_mode mode, command_ref who, const vector_clock& known) noexcept;
    void report(const conflict& with, command_ref who, access_mode mode, const block& what);
    void host_touches(block& what, access_mode mode, bool frees);
    bool is_doomed(const block& what, access_mode mode, bool frees);
    void scramble(block& what) const noexcept;
    std::string name_of(const block& what) const;

    const witness& witness_;
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
