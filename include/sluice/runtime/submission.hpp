// submission: what an operation that was submitted leaves behind for its waiter: how far on which streams its
// commands reach, and what may have gone wrong. Kept by the context while it submits, and by the future after.
//
// Thread safety: filled by the one submitting thread; once sealed, all members but the failures' forgetting may
// be called on any thread. References are counted atomically.
#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/async/wait_mode.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/outcome.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::detail {

class submission;

// Counts references to a submission.
class submission_ref {
public:
    submission_ref() = default;
    explicit submission_ref(submission* counted) noexcept;  // takes one more reference
    submission_ref(const submission_ref& other) noexcept : submission_ref(other.submission_) {}
    submission_ref(submission_ref&& other) noexcept : submission_(std::exchange(other.submission_, nullptr)) {}
    submission_ref& operator=(submission_ref other) noexcept {
        std::swap(submission_, other.submission_);
        return *this;
    }
    ~submission_ref();

    submission* get() const noexcept { return submission_; }
    submission* operator->() const noexcept { return submission_; }
    submission& operator*() const noexcept { return *submission_; }
    explicit operator bool() const noexcept { return submission_ != nullptr; }

private:
    submission* submission_ = nullptr;
};

class submission {
public:
    explicit submission(device& home) noexcept : alive_(home), home_(home) {}
    submission(const submission&) = delete;  // counted
    submission& operator=(const submission&) = delete;

    device& home() const noexcept { return home_; }

    // While it is being submitted.

    // Makes room for one more command, which then cannot fail to be noted.
    void expect(const command_queue& on, bool with_outcome);
    void note(stream_point point, const outcome_ref& hangs_on) noexcept;
    // The user's name of what is submitted now, or null; gives the one before.
    const std::string* rename(const std::string* name) noexcept { return std::exchange(name_, name); }
    const std::string* name() const noexcept { return name_; }
    // Waits for that one too, and shares its failures.
    void join(submission_ref other);
    // Waits for the last write of this too, whoever submitted it, and shares what the contents hang on.
    void reach(const storage& data);

    // Once it is sealed.

    // Whether all of it is known to be complete.
    bool is_complete() const noexcept;
    // Whether all of it is known to be complete and to have turned out well: there is nothing left to wait for or tell.
    bool is_fine() const noexcept;
    // The first point that is not known to be complete; null when there is none.
    stream_point next_open() const noexcept;
    // Blocks until all of it is complete. Throws the fault of a device.
    void await_completion(std::optional<wait_mode> mode) const;
    // All of it is complete, or a device has faulted: throws what went wrong, a fault first.
    void rethrow_failure() const;

private:
    friend class submission_ref;
    ~submission() = default;

    // Whether waiting for this one is enough for that point.
    bool covers(const stream_point& point) const noexcept;
    // Throws the fault of a device on which some of it is open.
    void rethrow_fault() const;

    std::atomic<long> references_{0};
    const runtime_ref alive_;
    device& home_;
    const std::string* name_ = nullptr;
    stream_point first_point_;
    std::vector<stream_point> more_points_;
    std::vector<outcome_ref> outcomes_;
    std::vector<submission_ref> joined_;
};

inline submission_ref::submission_ref(submission* counted) noexcept : submission_(counted) {
    if (submission_ != nullptr) submission_->references_.fetch_add(1, std::memory_order_relaxed);
}
inline submission_ref::~submission_ref() {
    if (submission_ == nullptr) return;
    // The last owner need not count down: nobody else can take a reference.
    if (submission_->references_.load(std::memory_order_acquire) == 1 ||
        submission_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
        delete submission_;
}

}  // namespace sluice::detail
