// What happened to a piece of storage: its last writer and the readers since, as (stream, ticket).
//
// Invariant: every access before the last write happens before it; every access after it is a reader, one
// entry a stream, the latest. So a new reader need only be ordered after the last write, and a new writer
// after that and the readers. A write replaces what was before it only when the next access comes: until
// then it can be revoked, should its command be refused.
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
    // Calls f(stream_point) for every earlier access that one of this mode on stream `by` must come after,
    // except those on `by` itself, which orders its own commands.
    template <typename Function>
    void for_each_conflict(const command_queue& by, access_mode mode, Function&& f) const {
        const stream_point write = last_write();
        if (write.where != nullptr && write.where != &by) f(write);
        if (mode == access_mode::read) return;
        for_each_reader([&](const stream_point& reader) {
            if (reader.where != &by) f(reader);
        });
    }

    // Calls f for every access that anyone who reuses or frees the storage must come after.
    template <typename Function>
    void for_each_last_use(Function&& f) const {
        if (last_write().where != nullptr) f(last_write());
        for_each_reader(f);
    }

    stream_point last_write() const { return new_write_.where != nullptr ? new_write_ : settled_write_; }

    // Adds an access. The caller orders it after all its conflicts. Throws std::bad_alloc, leaving the history
    // as it was; only a read can.
    void add(stream_point point, access_mode mode) {
        if (is_new_write(point)) return;  // one command that names the storage twice
        settle();
        if (mode == access_mode::write) {
            new_write_ = point;
        } else {
            add_reader(point);
        }
    }

    // Takes back a write that was not enqueued after all, the last one added: what was before it is in force
    // again. A read may stay: its ticket will be the stream's next command, later than need be and no harm.
    void revoke(stream_point point) {
        if (is_new_write(point)) new_write_ = {};
    }

private:
    bool is_new_write(stream_point point) const {
        return new_write_.where != nullptr && new_write_.where == point.where && new_write_.upto == point.upto;
    }

    // The next access has come, so the write before it was enqueued.
    void settle() {
        if (new_write_.where == nullptr) return;
        settled_write_ = std::exchange(new_write_, {});
        few_count_ = 0;
        more_.clear();
    }

    template <typename Function>
    void for_each_reader(Function&& f) const {
        if (new_write_.where != nullptr) return;  // all of them before it
        for (std::size_t i = 0; i < few_count_; ++i) f(few_[i]);
        for (const stream_point& reader : more_) f(reader);
    }

    void add_reader(stream_point point) {
        for (std::size_t i = 0; i < few_count_; ++i) {
            if (few_[i].where == point.where) {
                few_[i].upto = point.upto;
                return;
            }
        }
        for (stream_point& reader : more_) {
            if (reader.where == point.where) {
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
