// SPDX-License-Identifier: Apache-2.0
// outcome: whether a command that may fail when it runs (a host call; a library call on a CPU) has succeeded, and with
// it everything that was computed from its results.
//
// A failed command leaves no results, so every command that reads them inherits the failure. Storage remembers the
// outcome that its contents depend on. A command that reads such storage depends on it too: it is skipped when the
// outcome has failed (where the device can still skip it), and the storage that it writes depends on the outcome as
// well. Each submission keeps the outcomes that its commands depend on and reports the first failure among them to its
// waiter. Commands that can neither fail nor read a fallible result have no outcome: null, at no cost.
//
// Results are pushed: when an outcome is settled, it notifies the outcomes that depend on it. So reading an outcome
// costs one word, and settling visits each dependency once, on a stack of constant depth, whatever the shape of the
// graph. An open source keeps its dependents alive, a dependent keeps no source: an outcome that is settled and no
// longer referenced is freed.
//
// Thread safety: references may be copied and dropped on any thread. An outcome is settled once, by the thread that
// executes its command; the other members may be called on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sluice/base/detail/intrusive_ref.hpp"
#include "sluice/base/detail/spin_lock.hpp"

namespace sluice::detail {

class outcome;
void add_reference(outcome& counted) noexcept;
void drop_reference(outcome& counted) noexcept;
using outcome_ref = intrusive_ref<outcome>;  // null for commands that cannot fail

class outcome {
public:
    // is_command: the outcome of a command that may fail by itself and inherits from the sources. Otherwise the
    // combined outcome of the sources, for commands that cannot fail by themselves. It is settled when all sources are,
    // and has failed when one of them has, with the failure of the first such source in their order.
    static outcome_ref combined(std::span<const outcome_ref> sources, bool is_command);

    // The outcome of a command that has already failed.
    static outcome_ref failed(std::exception_ptr failure);

    outcome(const outcome&) = delete;  // counted
    outcome& operator=(const outcome&) = delete;

    // To be called before a command that may fail by itself runs: the failure because of which it must not run, or
    // null; of several failures that of the first source. All commands before it have been settled. (A command that
    // cannot fail by itself depends on the outcomes of others: use their failure().)
    std::exception_ptr inherited() const noexcept;
    // The command has run, and failed unless `failure` is null. To be called once, and for commands only.
    void settle(std::exception_ptr failure) noexcept;

    // Null when the outcome is a success or not known yet.
    std::exception_ptr failure() const noexcept;
    // Whether the outcome is known to be a success: then it need not be remembered.
    bool is_fine() const noexcept { return state_.load(std::memory_order_acquire) == state::fine; }

private:
    friend void add_reference(outcome&) noexcept;
    friend void drop_reference(outcome&) noexcept;
    enum class state : unsigned char { open, fine, failed };

    // One dependency. While the source is open, the link is in its list and counts as a reference to the dependent.
    struct link {
        outcome* dependent;
        link* next;
    };

    outcome(std::size_t sources, bool is_command);
    ~outcome() = default;

    // Adds the link to the list. If this outcome is already settled, notifies the dependent instead.
    void tell(link& one) noexcept;
    void notify_dependents() noexcept;
    // A source is settled. Returns whether this outcome is now settled too.
    bool hear(const link& from, const std::exception_ptr& failure) noexcept;
    // With the lock held: one source less is open. Returns whether this outcome is now settled.
    bool count_down() noexcept;

    std::atomic<long> references_{0};
    std::atomic<state> state_{state::open};
    const bool is_command_;
    mutable spin_lock guard_;              // guards the following until the outcome is settled; failure_ is then final
    std::size_t open_sources_;             // plus one during construction
    const link* failed_source_ = nullptr;  // the first failed source in their order
    std::exception_ptr failure_;
    link* dependents_ = nullptr;
    const std::unique_ptr<link[]> links_;  // one for each source, in their order
    outcome* next_ = nullptr;              // link of the list of outcomes just settled, or being deleted
};

inline void add_reference(outcome& counted) noexcept { counted.references_.fetch_add(1, std::memory_order_relaxed); }

// The outcomes that a command depends on, gathered from the storage that it names.
class outcome_set {
public:
    // Ignores null, known successes and duplicates.
    void add(const outcome_ref& one);
    bool empty() const noexcept { return !first_; }
    // One outcome for all of them, null for none. `is_command`: for a command that may fail by itself.
    outcome_ref merge(bool is_command) &&;

private:
    outcome_ref first_;
    std::vector<outcome_ref> others_;
};

}  // namespace sluice::detail
