// SPDX-License-Identifier: Apache-2.0
// shadow: which commands have used the bytes of one block, as far as a later command may conflict with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "check/event.hpp"
#include "check/vector_clock.hpp"

namespace sluice::check {

// The call that did it, in few bytes; findings.hpp makes a place of it.
struct call_ref {
    std::uint64_t line = 0;
    std::uint64_t thread = 0;
    std::uint64_t stack = 0;
    std::uint64_t stream = 0;
    std::uint32_t name = 0;  // of the names that the findings keep
    bool is_host = false;
};

// A use of memory. An extent that is not known is one byte: only equal pointers overlap then, because an allocator may
// have put other things next to it.
struct access {
    byte_span where;
    access_mode mode = access_mode::read;
};

struct access_record {
    access used;
    moment at;
    call_ref by;
};

enum class conflict : unsigned char { none, uncertain, certain };
conflict between(access_mode a, access_mode b) noexcept;

class shadow {
public:
    // Records the use, and calls on_conflict(const access_record&, conflict) for earlier ones without an order.
    template <typename Function>
    void note(const access_record& use, const vector_clock& known, const Function& on_conflict) {
        visit_unordered(use.used.where, known, [&](const access_record& earlier) {
            const conflict kind = between(earlier.used.mode, use.used.mode);
            if (kind != conflict::none) on_conflict(earlier, kind);
        });
        replace(use, known);
    }

    // Calls function(record) for each use of these bytes that `known` does not cover.
    template <typename Function>
    void visit_unordered(const byte_span& where, const vector_clock& known, const Function& function) const {
        for (const access_record& each : records_) {
            if (!known.covers(each.at) && meets(each.used.where, where)) function(each);
        }
    }

    // Forgets what is covered: nothing can conflict with it any more.
    void forget(const vector_clock& covered);
    bool is_full() const noexcept { return records_.size() >= most_records; }
    void forget_oldest() noexcept { records_.erase(records_.begin()); }
    std::size_t size() const noexcept { return records_.size(); }

    static constexpr std::size_t most_records = 4096;

private:
    static bool meets(const byte_span& a, const byte_span& b) noexcept;
    // Adds it; drops those before it that it stands for.
    void replace(const access_record& use, const vector_clock& known);

    std::vector<access_record> records_;
};

}  // namespace sluice::check
