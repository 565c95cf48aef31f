// SPDX-License-Identifier: Apache-2.0
// repeated_stretches: finds out which stretches of commands a stream gets again and again. A stretch is what one
// operation submits without a break. From the third time on it can be replayed; then its commands are kept, one after
// the other, for as long as they are those of a known stretch.
//
// Only what a graph cannot change at each launch counts: the kernel and the size of its launch, not its arguments.
//
// Thread safety: none; the stream guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/runtime/command.hpp"

namespace sluice::cuda {

// A command of a stretch: a launch of a kernel. (Small copies and fills are launches too.)
struct repeated_step {
    const void* kernel = nullptr;  // the driver's handle
    launch_extent grid = {};
    launch_extent block = {};
    std::size_t shared_bytes = 0;
    std::size_t closure_bytes = 0;
    bool starts_early = false;

    friend bool operator==(const repeated_step&, const repeated_step&) = default;
};

class repeated_stretches {
public:
    static constexpr std::size_t most_steps = 128;  // of one stretch: the GPU begins when the stretch ends
    static constexpr std::size_t most_known = 16;
    static constexpr unsigned enough_sightings = 3;

    using steps = std::vector<repeated_step>;

    // Whether the stretch has as many steps as it may have: end() it before the next one.
    bool is_full() const noexcept { return now_.size() == most_steps; }
    // The next command. True: to be kept, because a stretch that can be replayed begins like this. False: to be
    // enqueued, and before it those that were kept.
    bool add(const repeated_step& step);

    // What is to be done at the end of a stretch. The indices are those of known stretches, below most_known.
    struct ending {
        std::optional<std::size_t> replay = {};    // with the commands that were kept; without it they are enqueued
        std::optional<std::size_t> build = {};     // make this one ready: set_ready() or refuse()
        std::optional<std::size_t> replaced = {};  // a new stretch has this index now, and the one before is forgotten
    };
    ending end() noexcept;

    const steps& of(std::size_t known) const noexcept { return known_[known].all; }
    void set_ready(std::size_t known) noexcept { known_[known].is_ready = true; }
    // It cannot be replayed, and end() does not name it again.
    void refuse(std::size_t known) noexcept;

private:
    struct stretch {
        steps all = {};
        unsigned sightings = 0;
        bool is_ready = false;
        bool is_refused = false;
        std::uint64_t last_seen = 0;
    };
    void learn(ending& made) noexcept;
    std::optional<std::size_t> find(const steps& all) const noexcept;
    std::size_t oldest() const noexcept;

    steps now_;
    std::uint32_t candidates_ = 0;  // bits: the ready stretches that begin with now_
    std::vector<stretch> known_;
    std::uint64_t clock_ = 0;
};

}  // namespace sluice::cuda
