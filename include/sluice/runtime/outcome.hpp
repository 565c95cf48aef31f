// outcome: how a command that may fail where it runs (a host call; a library call on a CPU) turned out, and with
// it everything made from what it should have made.
//
// A failed command's results are not there. So whoever reads them inherits the failure: storage remembers the
// outcome that its contents hang on; a command that reads such storage hangs on it too, is not run when it has
// failed (where the device can still choose), and passes it on to what it writes. Each submission keeps the outcomes
// that its commands hang on, and tells its waiter the first failure among them. Commands that cannot fail by
// themselves and read nothing that can have no outcome: null, at no cost.
//
// Thread safety: references may be copied and dropped on any thread. An outcome is settled once, by whoever carries
// its command out; the other members may be called on any thread.
#pragma once

#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "sluice/runtime/spin_lock.hpp"

namespace sluice::detail {

class outcome;

// Counts references to an outcome; null for what cannot fail.
class outcome_ref {
public:
    outcome_ref() = default;
    explicit outcome_ref(outcome* counted) noexcept;  // takes one more reference
    outcome_ref(const outcome_ref& other) noexcept : outcome_ref(other.outcome_) {}
    outcome_ref(outcome_ref&& other) noexcept : outcome_(std::exchange(other.outcome_, nullptr)) {}
    outcome_ref& operator=(outcome_ref other) noexcept {
        std::swap(outcome_, other.outcome_);
        return *this;
    }
    ~outcome_ref() {
        if (outcome_ != nullptr) drop(outcome_);
    }

    outcome* get() const noexcept { return outcome_; }
    outcome* operator->() const noexcept { return outcome_; }
    explicit operator bool() const noexcept { return outcome_ != nullptr; }
    friend bool operator==(const outcome_ref&, const outcome_ref&) = default;

private:
    friend class outcome;
    static void drop(outcome* last) noexcept;

    outcome* outcome_ = nullptr;
};

class outcome {
public:
    // Of a command that may fail by itself and inherits from these; or of what commands that cannot made of them.
    static outcome_ref made_of(std::vector<outcome_ref> sources, bool is_command);

    // Of a command that has failed already.
    static outcome_ref failed(std::exception_ptr failure);

    outcome(const outcome&) = delete;  // counted
    outcome& operator=(const outcome&) = delete;

    // Before a command that may fail by itself runs: why it must not, or null. All that it comes after has been
    // settled. (One that cannot fail hangs on others' outcomes: ask for their failure().)
    std::exception_ptr inherited() const noexcept;
    // The command has run, and failed unless `failure` is null. Once, and for commands only.
    void settle(std::exception_ptr failure) noexcept;

    // Null when it has turned out well, or is not known yet.
    std::exception_ptr failure() const noexcept;
    // Whether it is known to have turned out well: nobody need remember it.
    bool is_fine() const noexcept;

private:
    friend class outcome_ref;
    enum class state : unsigned char { open, fine, failed };

    outcome(std::vector<outcome_ref> sources, bool is_command)
        : is_command_(is_command), sources_(std::move(sources)) {}
    ~outcome() = default;

    state look() const noexcept;

    mutable std::atomic<long> references_{0};
    mutable std::atomic<state> state_{state::open};
    const bool is_command_;
    mutable spin_lock guard_;  // of what follows, until the state is settled; then failure_ changes no more
    mutable std::vector<outcome_ref> sources_;
    mutable std::exception_ptr failure_;
    outcome* next_doomed_ = nullptr;  // the list of those being deleted
};

inline outcome_ref::outcome_ref(outcome* counted) noexcept : outcome_(counted) {
    if (outcome_ != nullptr) outcome_->references_.fetch_add(1, std::memory_order_relaxed);
}

// What a command hangs on, gathered from the storage that it names.
class outcome_set {
public:
    // Null, what is known to be fine and what is already there are left out.
    void add(const outcome_ref& one);
    bool empty() const noexcept { return !first_; }
    // One outcome for all of them, null for none. `is_command`: for a command that may fail by itself.
    outcome_ref merge(bool is_command) &&;

private:
    outcome_ref first_;
    std::vector<outcome_ref> others_;
};

}  // namespace sluice::detail
