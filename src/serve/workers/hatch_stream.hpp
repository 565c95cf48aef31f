// SPDX-License-Identifier: Apache-2.0
// Messages of any length through a hatch: a writer and a reader of bytes, which cut them into pieces.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>

#include "serve/workers/hatch.hpp"

namespace sluice::serve {

// How a side waits for the other one within a message.
struct hatch_wait {
    std::chrono::nanoseconds spin{0};
    std::function<void()> look;  // as hatch::take has it; not empty
};

class hatch_writer {
public:
    hatch_writer(hatch& to, const hatch_wait& wait) noexcept : to_(to), wait_(wait) {}

    // Blocks while the other side takes what is before, where the message is longer than the area. Throws what the look
    // throws, and worker_damage.
    void write(std::span<const std::byte> bytes);
    // The message is complete.
    void end() noexcept { to_.give(used_, false); }

private:
    hatch& to_;
    const hatch_wait& wait_;
    std::size_t used_ = 0;  // of the area
};

class hatch_reader {
public:
    // `first`: what hatch::take has returned.
    hatch_reader(hatch& from, hatch_piece first, const hatch_wait& wait) noexcept
        : from_(from), piece_(first), wait_(wait) {}

    // Fills `to`. Blocks until the other side has given as much. Throws worker_damage for a message that ends before
    // that, and what the look throws.
    void read(std::span<std::byte> to);
    // Throws worker_damage when the message has more.
    void require_end() const;
    // Takes what is left of the message, without a look at it. Throws worker_damage when that are more pieces.
    void skip(std::size_t most_pieces);

private:
    void next();

    hatch& from_;
    hatch_piece piece_;
    const hatch_wait& wait_;
    std::size_t used_ = 0;  // of the piece
};

}  // namespace sluice::serve
