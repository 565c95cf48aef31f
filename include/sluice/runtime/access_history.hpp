// What happened to a piece of storage: its last writer and the readers since, as (stream, ticket).
//
// Invariant: every access before `last_write_` happens before it; every access after it is in `readers_`,
// one entry a stream, the latest. So a new reader need only be ordered after last_write_, and a new writer
// after last_write_ and readers_.
//
// Thread safety: none; storage guards it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "sluice/runtime/command.hpp"
#include "sluice/runtime/ticket.hpp"

namespace sluice::detail {

class access_history {
public:
    // Calls f(stream_point) for every earlier access that one of this mode on stream `by` must come after,
    // except those on `by` itself, which orders its own commands.
    template <typename Function>
    void for_each_conflict(const stream& by, access_mode mode, Function&& f) const {
        if (last_write_.where != nullptr && last_write_.where != &by) f(last_write_);
        if (mode == access_mode::read) return;
        for_each_reader([&](const stream_point& reader) {
            if (reader.where != &by) f(reader);
        });
    }

    // Calls f for every access that anyone who reuses or frees the storage must come after.
    template <typename Function>
    void for_each_last_use(Function&& f) const {
        if (last_write_.where != nullptr) f(last_write_);
        for_each_reader(f);
    }

    stream_point last_write() const { return last_write_; }

    // Adds an access. The caller has ordered it after all its conflicts. Throws std::bad_alloc, leaving the
    // history as it was; only a read can.
    void add(stream_point point, access_mode mode) {
        if (mode == access_mode::write) {
            last_write_ = point;
            few_count_ = 0;
            more_.clear();
        } else {
            add_reader(point);
        }
    }

private:
    template <typename Function>
    void for_each_reader(Function&& f) const {
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

    stream_point last_write_;
    std::array<stream_point, 4> few_;  // no allocation for the first few streams
    std::size_t few_count_ = 0;
    std::vector<stream_point> more_;
};

}  // namespace sluice::detail
