// SPDX-License-Identifier: Apache-2.0
// submission: the record of a submitted operation for its waiter: the last ticket on each queue, and the outcomes that
// its commands depend on. The context keeps it during the submission, the future afterwards.
//
// It is flat. A submission that joins another copies what is still open there and keeps no reference to it. So its cost
// depends on its own queues and commands, not on the number of submissions before it, and nothing here is recursive.
//
// Thread safety: filled by the one submitting thread; afterwards, when it is only read, all members may be called on
// any thread. References are counted atomically.
#pragma once

#include <atomic>
#include <forward_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/async/wait_mode.hpp"
#include "sluice/base/detail/intrusive_ref.hpp"
#include "sluice/runtime/detail/outcome.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::detail {

class submission;
void add_reference(submission& counted) noexcept;
void drop_reference(submission& counted) noexcept;
using submission_ref = intrusive_ref<submission>;

class submission {
public:
    explicit submission(device& home) noexcept : alive_(home), home_(home) {}
    submission(const submission&) = delete;  // counted
    submission& operator=(const submission&) = delete;

    device& home() const noexcept { return home_; }

    // During the submission.

    // Reserves room for one more command, so that note() cannot fail for it.
    void expect(const command_queue& on, bool with_outcome);
    void note(stream_point point, const outcome_ref& depends_on) noexcept;
    // Sets the user's name of the operation that is being submitted, or null; returns the name before.
    const std::string* rename(const std::string* name) noexcept { return std::exchange(name_, name); }
    const std::string* name() const noexcept { return name_; }
    // A waiter of this submission also waits for `other`, to which nothing more is submitted, and receives its
    // failures.
    void join(const submission_ref& other);
    // A waiter also waits for the last write of this storage, from any submission, and receives the failures that the
    // contents depend on.
    void reach(const storage& data);
    // Nothing more is submitted, and others will join this submission: merges its outcomes into one for them to copy.
    void seal();

    // After the submission.

    // Calls f for the last point on each queue.
    template <typename Function>
    void for_each_point(Function&& f) const {
        any_point([&](const stream_point& each) {
            f(each);
            return false;
        });
    }
    // Whether all its commands are known to be complete.
    bool is_complete() const noexcept;
    // Whether nothing is left to wait for: all its commands are known to be complete, or the device of the first open
    // point has faulted.
    bool is_over() const noexcept;
    // Queries the progress of the devices. Does not block.
    void poll() const noexcept;
    // The first point that is not known to be complete; null when there is none.
    stream_point next_open() const noexcept;
    // Blocks until all its commands are complete. Throws the fault of a device.
    void await_completion(std::optional<wait_mode> mode) const;
    // To be called when all commands are complete or a device has faulted: throws the first error, a fault before
    // others.
    void rethrow_failure() const;

private:
    friend void add_reference(submission&) noexcept;
    friend void drop_reference(submission&) noexcept;
    ~submission() = default;

    // A device whose queues it has points on; may belong to another runtime.
    struct kept_device {
        explicit kept_device(device& kept) noexcept : of(kept), alive(kept) {}
        device& of;
        const runtime_ref alive;
    };

    // Calls f for the point on each queue until f returns true; returns whether it did.
    template <typename Function>
    bool any_point(Function&& f) const {
        if (first_point_.queue == nullptr) return false;
        if (f(first_point_)) return true;
        for (const stream_point& each : more_points_) {
            if (f(each)) return true;
        }
        return false;
    }
    // Whether a waiter of this submission waits for that point too.
    bool covers(const stream_point& point) const noexcept;
    // Throws the fault of a device on which commands are open.
    void rethrow_fault() const;
    // Reserves room for one more outcome, so that note_outcome() cannot fail for it.
    void expect_outcome();
    void note_outcome(const outcome_ref& depends_on) noexcept;
    void keep(device& reached);

    std::atomic<long> references_{0};
    const runtime_ref alive_;
    device& home_;
    const std::string* name_ = nullptr;
    stream_point first_point_;               // on the first queue; most submissions have no other
    std::vector<stream_point> more_points_;  // sorted by queue
    std::vector<outcome_ref> outcomes_;
    std::forward_list<kept_device> kept_;  // without home_
};

inline void add_reference(submission& counted) noexcept { counted.references_.fetch_add(1, std::memory_order_relaxed); }
inline void drop_reference(submission& counted) noexcept {
    if (is_last_reference(counted.references_)) delete &counted;
}

}  // namespace sluice::detail
