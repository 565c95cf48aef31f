// SPDX-License-Identifier: Apache-2.0
// The host's side of the boxes of a network that stays on a GPU: writes requests, reads answers. See
// resident_layout.hpp.
//
// Invariant: when a request with a number is written, no word of the lane's boxes has that number from an earlier
// request, and the entry that the kernel may still look at is not changed.
//
// Thread safety: a lane is used by one thread at a time, from a request to its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/resident/resident_layout.hpp"

namespace sluice::kernels {

class resident_lanes {
public:
    // One request of a lane is in flight at a time.
    static constexpr std::uint32_t depth = 2;

    // How much pinned memory they need.
    static std::size_t bytes(const resident_layout& layout, std::size_t lanes) noexcept;

    // `memory` is of that size, cleared, and the caller's.
    resident_lanes(const resident_layout& layout, std::size_t lanes, void* memory);

    // Where the kernel finds everything; the image is at this address of the device.
    resident_call call(std::uint32_t pause, const std::uint32_t* stop) const noexcept;
    void set_image(const void* on_device) noexcept;

    // Asks for `rows` rows of 16-bit elements. The inputs are read before it returns.
    void ask(std::size_t lane, const std::uint16_t* inputs, std::uint32_t rows) noexcept;
    // Asks the lane to read the image again.
    void ask_to_reload(std::size_t lane) noexcept;
    // Continues to read the answer to the lane's request; returns whether it is complete. `outputs` is the same at each
    // call, and null for an answer to ask_to_reload.
    bool take(std::size_t lane, std::uint16_t* outputs) noexcept;

private:
    // An entry is cleared after that many requests: twice before a number comes again.
    static constexpr std::uint32_t uses_before_clear = last_resident_number / depth / 2;

    struct lane_state {
        std::uint32_t number = 0;  // of the latest request
        std::uint32_t flag = 0;    // of its words
        std::uint32_t slot = depth - 1;
        std::uint32_t rows = 0;
        std::uint32_t words_taken = 0;
        std::uint32_t blocks_fetched = 0;  // of the next entry
        std::uint32_t uses[depth] = {};    // of each entry, since it was cleared
    };

    resident_word* entry_in(std::size_t lane, std::size_t slot) const noexcept;
    resident_word* entry_in(std::size_t lane) const noexcept { return entry_in(lane, lanes_[lane].slot); }
    resident_word* entry_out(std::size_t lane) const noexcept;
    void fetch_of_next(lane_state& of, std::size_t lane) const noexcept;
    lane_state& begin(std::size_t lane, std::uint32_t asked) noexcept;

    resident_layout layout_;
    std::uint64_t* image_;
    resident_word* inbox_;
    resident_word* outbox_;
    std::vector<lane_state> lanes_;
};

}  // namespace sluice::kernels
