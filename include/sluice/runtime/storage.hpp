// A block of memory on one device, with the history of its use. Buffers and tensors own storage through
// storage_ref; when the last reference goes, the block returns to its pool with its history, and whoever
// gets it next is ordered behind that. Dropping a reference never blocks.
//
// Thread safety: history is guarded; references may be copied and dropped on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include "sluice/runtime/access_history.hpp"
#include "sluice/runtime/outcome.hpp"
#include "sluice/runtime/spin_lock.hpp"

namespace sluice {

class device;
class memory_pool;

class storage {
public:
    storage(memory_pool& pool, void* data, std::size_t capacity_bytes)
        : pool_(pool), data_(data), capacity_bytes_(capacity_bytes) {}
    // A place in a graph's memory: not the pool's, and nothing but commands of the graph may use it.
    struct planned {};
    storage(memory_pool& pool, void* data, std::size_t capacity_bytes, planned)
        : pool_(pool), data_(data), capacity_bytes_(capacity_bytes), is_planned_(true) {}
    storage(const storage&) = delete;  // commands and histories point to it
    storage& operator=(const storage&) = delete;

    void* data() const noexcept { return data_; }
    // At least what was asked for.
    std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
    memory_pool& pool() const noexcept { return pool_; }
    device& owner() const noexcept;
    bool is_planned() const noexcept { return is_planned_; }
    // How many references there are. Only a hint while other threads copy or drop theirs, unless it is 1.
    long use_count() const noexcept { return references_.load(std::memory_order_acquire); }

    // Calls f(stream_point) for every access that one of this mode by `point.where` must come after, and adds
    // that one. The caller goes on to order and enqueue its command, or revokes the use.
    // Returns what its contents hang on.
    template <typename Function>
    detail::outcome_ref use(stream_point point, access_mode mode, Function&& f) {
        const std::lock_guard lock(guard_);
        history_.for_each_conflict(*point.where, mode, f);
        history_.add(point, mode);
        return outcome_;
    }
    // The contents now hang on this; null: on nothing.
    void hang_on(detail::outcome_ref outcome) noexcept {
        const std::lock_guard lock(guard_);
        if (holds_data_) std::swap(outcome_, outcome);
    }
    // Scratch memory: what one command leaves there, no other reads.
    void holds_no_data() noexcept { holds_data_ = false; }
    // Takes back a use whose command was not enqueued after all.
    void revoke(stream_point point) noexcept {
        const std::lock_guard lock(guard_);
        history_.revoke(point);
    }
    template <typename Function>
    void for_each_last_use(Function&& f) const {
        const std::lock_guard lock(guard_);
        history_.for_each_last_use(f);
    }

    // The last write, as far as it was issued (nowhere: there was none), and what the contents hang on.
    struct written {
        stream_point last;
        detail::outcome_ref hangs_on;
    };
    written last_write() const;

    // Blocks until nothing on any stream uses the storage any more (for a host thread that wants to write),
    // or until its last writer is done (for one that wants to read).
    void await_all_uses() const;
    void await_last_write() const;
    // The host, having waited, reads or writes the contents from here on. For simulators: it does nothing elsewhere.
    void touched_by_host(access_mode mode) const noexcept;

private:
    friend class storage_ref;
    friend class memory_pool;

    memory_pool& pool_;
    void* const data_;
    const std::size_t capacity_bytes_;
    std::atomic<long> references_{0};
    mutable detail::spin_lock guard_;
    detail::access_history history_;
    detail::outcome_ref outcome_;
    bool holds_data_ = true;
    const bool is_planned_ = false;
    storage* next_free_ = nullptr;  // the pool's list
};

// Counts references to storage.
class storage_ref {
public:
    storage_ref() = default;
    // The first reference to a block that nobody else knows yet.
    explicit storage_ref(storage* fresh) noexcept : storage_(fresh) {
        fresh->references_.store(1, std::memory_order_relaxed);
    }
    // A further reference to one that somebody keeps.
    static storage_ref retain(storage* known) noexcept {
        storage_ref made;
        made.storage_ = known;
        made.retain();
        return made;
    }
    storage_ref(const storage_ref& other) noexcept : storage_(other.storage_) { retain(); }
    storage_ref(storage_ref&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
    storage_ref& operator=(storage_ref other) noexcept {
        std::swap(storage_, other.storage_);
        return *this;
    }
    ~storage_ref() {
        if (storage_ != nullptr && is_last()) give_back();
    }

    storage* get() const noexcept { return storage_; }
    storage* operator->() const noexcept { return storage_; }
    storage& operator*() const noexcept { return *storage_; }
    explicit operator bool() const noexcept { return storage_ != nullptr; }

private:
    void retain() noexcept {
        if (storage_ != nullptr) storage_->references_.fetch_add(1, std::memory_order_relaxed);
    }
    // Whether this is the last one, which goes. What has one owner, as most has, is not counted down: nobody else can
    // take a reference.
    bool is_last() const noexcept {
        // Acquire: others' uses before our reuse. Release: our last use before another thread's reuse.
        return storage_->references_.load(std::memory_order_acquire) == 1 ||
               storage_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    void give_back() noexcept;

    storage* storage_ = nullptr;
};

}  // namespace sluice
