// SPDX-License-Identifier: Apache-2.0
// blocks: the memory that a program has allocated, and what has used it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "check/event.hpp"
#include "check/shadow.hpp"
#include "check/vector_clock.hpp"

namespace sluice::check {

struct block {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;
    place_kind where = place_kind::device;
    std::uint64_t device = 0;
    call_ref allocated;
    call_ref freed;           // of memory that was freed in the order of a stream
    vector_clock freed_upto;  // likewise
    shadow used;

    std::uint64_t end() const noexcept { return at + bytes; }
};

class blocks {
public:
    // The live block with this byte; null when there is none.
    block* find(std::uint64_t at) noexcept { return find_in(live_, at); }
    // The block with this byte that was freed in the order of a stream.
    block* find_freed(std::uint64_t at) noexcept { return find_in(freed_, at); }

    // Calls on_reused(const block&) for freed blocks whose bytes it takes. Blocks that are still live there are
    // dropped: the trace does not have everything that frees.
    template <typename Function>
    block& add(const block& made, const Function& on_reused) {
        erase_overlapping(live_, made, [](const block&) {});
        erase_overlapping(freed_, made, on_reused);
        check_room();
        return live_[made.at] = made;
    }
    void remove(std::uint64_t at) { live_.erase(at); }
    // It was freed in the order of a stream; what may still use it stays known.
    void bury(block& what);

    // Makes room for one more use.
    void prepare_use(block& of, const vector_clock& host);
    std::uint64_t forgotten() const noexcept { return forgotten_; }

    static constexpr std::size_t most_blocks = std::size_t{1} << 20;
    static constexpr std::size_t most_freed = 4096;
    static constexpr std::size_t most_uses = std::size_t{1} << 21;  // of all blocks

private:
    using by_address = std::map<std::uint64_t, block>;
    static block* find_in(by_address& in, std::uint64_t at) noexcept;
    template <typename Function>
    void erase_overlapping(by_address& in, const block& made, const Function& on_each) {
        auto at = in.upper_bound(made.at);
        if (at != in.begin()) --at;
        while (at != in.end() && at->second.at < made.end()) {
            if (at->second.end() <= made.at) {
                ++at;
                continue;
            }
            on_each(at->second);
            at = in.erase(at);
        }
    }
    void check_room() const;

    by_address live_, freed_;
    std::uint64_t uses_ = 0;  // since they were last counted
    std::uint64_t forgotten_ = 0;
};

}  // namespace sluice::check
