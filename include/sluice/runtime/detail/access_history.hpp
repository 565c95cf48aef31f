// SPDX-License-Identifier: Apache-2.0
// access_history: the last writer of a storage and the readers since then, as (queue, ticket).
//
// Invariant: every access before the last write happens before it; every access after it is a reader, with one entry
// for each queue, the latest. So a new reader need only be ordered after the last write, and a new writer after the
// last write and the readers. A write replaces the earlier accesses only when the next access is added: until then it
// can be revoked, in case its command is refused.
//
// A part of a storage (runtime/parts.hpp) has a history of its own, which begins as a copy of the whole's. When the
// part ends, or is joined with others, a history adopts its accesses. After that there may be several last writes, of
// different parts: one for each queue, the latest.
//
// Thread safety: none; storage guards it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "sluice/runtime/command.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::detail {

class access_history {
public:
    // Calls f(stream_point) for every earlier access that an access of this mode on queue `by` must come after, except
    // those on `by` itself, which orders its own commands.
    template <typename Function>
    void for_each_conflict(const command_queue& by, access_mode mode, Function&& f) const {
        const stream_point write = last_write();
        if (write.queue != nullptr && write.queue != &by) f(write);
        for_each_adopted_write([&](const stream_point& other) {
            if (other.queue != &by) f(other);
        });
        if (mode == access_mode::read) return;
        for_each_reader([&](const stream_point& reader) {
            if (reader.queue != &by) f(reader);
        });
    }

    // Calls f for every access that must be complete before the storage is reused or freed.
    template <typename Function>
    void for_each_last_use(Function&& f) const {
        for_each_last_write(f);
        for_each_reader(f);
    }

    // Calls f for every write that must be complete before the storage is read.
    template <typename Function>
    void for_each_last_write(Function&& f) const {
        if (last_write().queue != nullptr) f(last_write());
        for_each_adopted_write(f);
    }

    // The last write through this history; for_each_last_write also knows those of parts.
    stream_point last_write() const { return new_write_.queue != nullptr ? new_write_ : settled_write_; }

    // Adds an access. The caller orders it after all its conflicts. Adding a read may throw std::bad_alloc; the history
    // is then unchanged.
    void add(stream_point point, access_mode mode) {
        if (is_new_write(point)) return;  // one command that names the storage twice
        settle();
        if (mode == access_mode::write) {
            new_write_ = point;
        } else {
            add_reader(point);
        }
    }

    // Removes the last added write, which was not enqueued after all: the accesses before it are valid again. A read
    // may stay: its ticket becomes that of the queue's next command, so waiting for it is later than needed but
    // correct.
    void revoke(stream_point point) {
        if (is_new_write(point)) new_write_ = {};
    }

    // From now on the accesses of this part count here too, except those for which is_over(stream_point) holds. Nothing
    // writes the whole while a part lives. May throw std::bad_alloc; some of the accesses then count.
    template <typename Predicate>
    void adopt(const access_history& part, Predicate&& is_over) {
        settle();
        part.for_each_last_write([&](const stream_point& write) {
            const bool is_known = write.queue == settled_write_.queue && write.upto <= settled_write_.upto;
            if (!is_known && !is_over(write)) raise(adopted_writes_, write);
        });
        part.for_each_reader([&](const stream_point& reader) {
            if (!is_over(reader)) add_reader(reader);
        });
    }

private:
    bool is_new_write(stream_point point) const {
        return new_write_.queue != nullptr && new_write_.queue == point.queue && new_write_.upto == point.upto;
    }

    // The new write was enqueued: the next access is being added.
    void settle() {
        if (new_write_.queue == nullptr) return;
        settled_write_ = std::exchange(new_write_, {});
        few_count_ = 0;
        more_.clear();
        adopted_writes_.clear();
    }

    template <typename Function>
    void for_each_adopted_write(Function&& f) const {
        if (adopted_writes_.empty() || new_write_.queue != nullptr) return;  // all of them are before the new write
        for (const stream_point& write : adopted_writes_) f(write);
    }

    template <typename Function>
    void for_each_reader(Function&& f) const {
        if (new_write_.queue != nullptr) return;  // all readers are before it
        for (std::size_t i = 0; i < few_count_; ++i) f(few_[i]);
        for (const stream_point& reader : more_) f(reader);
    }

    void add_reader(stream_point point) {
        for (std::size_t i = 0; i < few_count_; ++i) {
            if (few_[i].queue == point.queue) {
                few_[i].upto = std::max(few_[i].upto, point.upto);
                return;
            }
        }
        if (few_count_ < few_.size()) {
            few_[few_count_++] = point;
        } else {
            raise(more_, point);
        }
    }

    // One entry for each queue, the latest.
    static void raise(std::vector<stream_point>& all, stream_point point) {
        const auto known = std::ranges::find(all, point.queue, &stream_point::queue);
        if (known == all.end()) {
            all.push_back(point);
        } else {
            known->upto = std::max(known->upto, point.upto);
        }
    }

    stream_point settled_write_;
    stream_point new_write_;           // a write that can still be revoked; null when there is none
    std::array<stream_point, 4> few_;  // readers since settled_write_; no allocation for the first few streams
    std::size_t few_count_ = 0;
    std::vector<stream_point> more_;
    std::vector<stream_point> adopted_writes_;  // of parts, since settled_write_
};

}  // namespace sluice::detail
