// SPDX-License-Identifier: Apache-2.0
// access_history: the last writer of a storage and the readers since then, as (queue, ticket).
//
// Invariant: every access before the last write happens before it; every access after it is a reader, with one entry
// for each queue, the latest. So a new reader need only be ordered after the last write, and a new writer after the
// last write and the readers. A write replaces the earlier accesses only when the next access is added: until then it
// can be revoked, in case its command is refused.
//
// Thread safety: none; storage guards it.
#pragma once

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
        if (mode == access_mode::read) return;
        for_each_reader([&](const stream_point& reader) {
            if (reader.queue != &by) f(reader);
        });
    }

    // Calls f for every access that must be complete before the storage is reused or freed.
    template <typename Function>
    void for_each_last_use(Function&& f) const {
        if (last_write().queue != nullptr) f(last_write());
        for_each_reader(f);
    }

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

private:
    bool is_new_write(stream_point point) const {
        return new_write_.queue != nullptr && new_write_.queue == point.queue && new_write_.upto == point.upto;
    }

    // The next access is being added, so the write before it was enqueued.
    void settle() {
        if (new_write_.queue == nullptr) return;
        settled_write_ = std::exchange(new_write_, {});
        few_count_ = 0;
        more_.clear();
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
                few_[i].upto = point.upto;
                return;
            }
        }
        for (stream_point& reader : more_) {
            if (reader.queue == point.queue) {
                reader.upto = point.upto;
                return;
            }
        }
        if (few_count_ < few_.size()) {
            few_[few_count_++] = point;
        } else {
            more_.push_back(point);
        }
    }

    stream_point settled_write_;
    stream_point new_write_;           // a write that can still be revoked; null when there is none
    std::array<stream_point, 4> few_;  // readers since settled_write_; no allocation for the first few streams
    std::size_t few_count_ = 0;
    std::vector<stream_point> more_;
};

}  // namespace sluice::detail
